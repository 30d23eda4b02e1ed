#include "launcherd/bootstrap/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

namespace muster::launcherd::failure_test {
namespace {

using base::Code;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(FailureTest, WordsOfSsh) {
  const struct {
    const char* words;
    FailureKind kind;
  } cases[] = {
      {"ssh: Could not resolve hostname n9: Name or service not known", FailureKind::kNameNotFound},
      {"ssh: connect to host n1 port 22: Connection refused", FailureKind::kRefused},
      {"ssh: connect to host n1 port 22: Connection timed out", FailureKind::kTimeout},
      {"Connection timed out during banner exchange", FailureKind::kTimeout},
      {"ssh: connect to host n1 port 22: No route to host", FailureKind::kNoRoute},
      {"ssh: connect to host n1 port 22: Network is unreachable", FailureKind::kNoRoute},
      {"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
       FailureKind::kHostKeyChanged},
      {"No ED25519 host key is known for n1 and you have requested strict checking.\nHost key verification failed.",
       FailureKind::kHostKeyUnknown},
      {"@ WARNING: REVOKED HOST KEY DETECTED! @\nHost key verification failed.", FailureKind::kHostKeyRevoked},
      {"alice@n1: Permission denied (publickey,password).", FailureKind::kAuthRefused},
      {"Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures", FailureKind::kAuthRefused},
      {"kex_exchange_identification: Connection closed by remote host", FailureKind::kClosed},
      {"Connection reset by 10.0.0.1 port 22", FailureKind::kClosed},
      {"Unable to negotiate with 10.0.0.1 port 22: no matching cipher found.", FailureKind::kSshFailed},
      {"", FailureKind::kSshFailed},
  };
  for (const auto& c : cases) EXPECT_EQ(classify_ssh_errors(c.words), c.kind) << c.words;
  EXPECT_TRUE(is_closed_before_banner("kex_exchange_identification: read: Connection reset by peer"));
  EXPECT_FALSE(is_closed_before_banner("Connection closed by 10.0.0.1 port 22"));
}

TEST(FailureTest, HowAgentsEnd) {
  const struct {
    int exit_status;
    const char* errors;
    const char* printed;
    FailureKind kind;
  } cases[] = {
      // dash, bash, csh and fish report that the file is missing.
      {127, "sh: 1: exec: /home/a/.cache/muster/agent-1-x86_64: not found", "", FailureKind::kAgentMissing},
      {127, "bash: line 1: /root/.cache/muster/agent-1-x86_64: No such file or directory", "",
       FailureKind::kAgentMissing},
      {127, "zsh:1: no such file or directory: /home/a/.cache/muster/agent-1-x86_64", "", FailureKind::kAgentMissing},
      {1, "/home/a/.cache/muster/agent-1-x86_64: Command not found.", "", FailureKind::kAgentMissing},
      {127, "fish: Unknown command: /home/a/.cache/muster/agent-1-x86_64", "motd", FailureKind::kAgentMissing},
      {127, "", "", FailureKind::kAgentMissing},
      // The shell reports that it cannot run the file.
      {126, "bash: line 1: /x/agent-1-x86_64: Permission denied", "", FailureKind::kNoExec},
      {1, "/x/agent-1-x86_64: Permission denied.", "", FailureKind::kNoExec},
      {126, "bash: /x/agent-1-x86_64: cannot execute binary file: Exec format error", "", FailureKind::kWrongArch},
      {1, "agent-1-x86_64: Exec format error. Wrong Architecture.", "", FailureKind::kWrongArch},
      // Other failures.
      {127, "agent: error while loading shared libraries: libx.so", "", FailureKind::kAgentFailed},
      {1, "muster-agent: cannot make its session directory", "", FailureKind::kAgentFailed},
      {139, "", "", FailureKind::kAgentFailed},
      {0, "", "This account is currently not available.", FailureKind::kNoisyShell},
      {1, "", "This account is currently not available.", FailureKind::kNoisyShell},
      {0, "", "", FailureKind::kNoisyShell},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(classify_agent_end(c.exit_status, c.errors, c.printed), c.kind) << c.exit_status << " " << c.errors;
  }
}

TEST(FailureTest, WhyItCannotBeStored) {
  EXPECT_EQ(classify_store_errors("head: write error: No space left on device"), FailureKind::kNoSpace);
  EXPECT_EQ(classify_store_errors("mkdir: cannot create directory: Disk quota exceeded"), FailureKind::kNoSpace);
  EXPECT_EQ(classify_store_errors("sh: 1: cannot create /x: Read-only file system"), FailureKind::kReadOnly);
  EXPECT_EQ(classify_store_errors("mkdir: cannot create directory '/x': Permission denied"), FailureKind::kNoWrite);
}

TEST(FailureTest, Errnos) {
  EXPECT_EQ(classify_errno(ECONNREFUSED), FailureKind::kRefused);
  EXPECT_EQ(classify_errno(ETIMEDOUT), FailureKind::kTimeout);
  EXPECT_EQ(classify_errno(EHOSTUNREACH), FailureKind::kNoRoute);
  EXPECT_EQ(classify_errno(ECONNRESET), FailureKind::kClosed);
  EXPECT_EQ(classify_errno(EIO), FailureKind::kSshFailed);
}

Failure full(FailureKind kind) {
  Failure failure;
  failure.kind = kind;
  failure.host = "alice@n1";
  failure.name = "[n1]:2222";
  failure.address = "10.0.0.1 port 2222";
  failure.user = "alice";
  failure.detail = "DETAIL";
  failure.printed = "motd\n";
  failure.exit_status = 3;
  failure.directory = "~/.cache/muster";
  return failure;
}

TEST(FailureTest, EachKindHasASentenceWithHostAndNextStep) {
  const struct {
    FailureKind kind;
    Code code;
    const char* next_step;
  } cases[] = {
      {FailureKind::kNameNotFound, Code::kNotFound, "/etc/hosts"},
      {FailureKind::kRefused, Code::kUnavailable, "start sshd there"},
      {FailureKind::kTimeout, Code::kDeadlineExceeded, "--start-timeout"},
      {FailureKind::kNoRoute, Code::kUnavailable, "check that the host is up"},
      {FailureKind::kHostKeyChanged, Code::kFailedPrecondition, "ssh-keygen -R '[n1]:2222'"},
      {FailureKind::kHostKeyUnknown, Code::kFailedPrecondition, "ssh alice@n1"},
      {FailureKind::kHostKeyRevoked, Code::kFailedPrecondition, "administrator"},
      {FailureKind::kAuthRefused, Code::kUnauthenticated, "ssh-copy-id alice@n1"},
      {FailureKind::kClosed, Code::kUnavailable, "MaxStartups"},
      {FailureKind::kNoSsh, Code::kFailedPrecondition, "install openssh-client"},
      {FailureKind::kSshFailed, Code::kUnavailable, "try: ssh alice@n1 true"},
      {FailureKind::kNoSpace, Code::kResourceExhausted, "--agent-dir DIR"},
      {FailureKind::kReadOnly, Code::kFailedPrecondition, "--agent-dir DIR"},
      {FailureKind::kNoWrite, Code::kPermissionDenied, "--agent-dir DIR"},
      {FailureKind::kNoExec, Code::kFailedPrecondition, "--agent-dir DIR"},
      {FailureKind::kWrongArch, Code::kFailedPrecondition, "build muster-agent for that architecture"},
      {FailureKind::kOtherBuild, Code::kFailedPrecondition, "rm ~/.cache/muster/agent-*"},
      {FailureKind::kNoisyShell, Code::kUnavailable, "remove output and exec from its start-up files"},
      {FailureKind::kAgentFailed, Code::kUnavailable, "--version"},
  };
  for (const auto& c : cases) {
    const base::Status status = to_status(full(c.kind));
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("host alice@n1: "), HasSubstr(c.next_step), Not(HasSubstr("\n"))));
  }
  EXPECT_EQ(to_status(full(FailureKind::kCancelled)).code(), Code::kCancelled);
  EXPECT_TRUE(to_status({}).ok());
}

TEST(FailureTest, QuotesWhatTheHostSaid) {
  EXPECT_THAT(to_status(full(FailureKind::kNoisyShell)).message(), HasSubstr("exit status 3: \"motd\""));
  EXPECT_EQ(quote_for_message("\x1b[31mred\x1b[0m\r\n \"x\"\x07"), "red 'x'");
  EXPECT_EQ(quote_for_message(std::string(1000, 'a')).size(), 200u);
  EXPECT_EQ(quote_for_message("\n\t"), "");
  EXPECT_EQ(quote_for_message("\x1b["), "");
  EXPECT_EQ(without_ssh_warnings("Warning: Permanently added 'n1' (ED25519) to the list of known hosts.\nsh: no\n"),
            "sh: no\n");
}

TEST(FailureWords, EachClassHasItsOwn) {
  std::set<std::string_view> words;
  constexpr int kLast = static_cast<int>(FailureKind::kAgentFailed);
  for (int kind = 0; kind <= kLast; ++kind) words.insert(failure_words(static_cast<FailureKind>(kind)));
  EXPECT_EQ(words.size(), static_cast<std::size_t>(kLast) + 1);
  EXPECT_FALSE(words.contains("unknown"));
}

}  // namespace
}  // namespace muster::launcherd::failure_test
