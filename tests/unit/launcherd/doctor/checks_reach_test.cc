#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/doctor/checks.h"

namespace muster::launcherd::checks_reach_test {
namespace {

using model::Check;
using model::CheckState;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

HostFindings failed(Failure failure) {
  failure.host = failure.name = "n2";
  HostFindings findings;
  findings.host.name = "n2";
  findings.failure = failure.kind;
  findings.status = to_status(failure);
  return findings;
}

TEST(CheckName, NotFound) {
  const HostFindings findings = failed({.kind = FailureKind::kNameNotFound, .detail = "Name or service not known"});
  EXPECT_EQ(check_name(findings),
            (Check{"name", CheckState::kFail, "cannot resolve the name (Name or service not known)",
                   "check its spelling, DNS and /etc/hosts"}));
}

TEST(CheckName, AddressAndWhatTheHostCallsItself) {
  HostFindings findings;
  findings.host.name = "n2";
  findings.host_address = *base::IpAddress::parse("10.0.0.2");
  findings.facts.emplace().mutable_hello()->set_hostname("node2");
  EXPECT_EQ(check_name(findings), (Check{"name", CheckState::kOk, "10.0.0.2, calls itself node2", ""}));
}

struct SshRow {
  Failure failure;
  const char* seen;
  const char* advice;
};

// Each kind of failure has its words, a cause and an advice. Text from the host never appears in the advice.
TEST(CheckSsh, EachClassOfFailure) {
  const std::vector<SshRow> rows = {
      {{.kind = FailureKind::kRefused, .address = "10.0.0.2 port 22"},
       "connection refused: nothing accepts",
       "start sshd"},
      {{.kind = FailureKind::kTimeout, .detail = "no connection"},
       "no answer: no answer in time",
       "check that the host"},
      {{.kind = FailureKind::kNoRoute}, "no route: not reachable", "check that the host is up"},
      {{.kind = FailureKind::kHostKeyChanged},
       "host key changed: its host key differs",
       "if you expected the change, run: ssh-keygen"},
      {{.kind = FailureKind::kHostKeyUnknown}, "host key unknown: ", "accept it once with: ssh n2"},
      {{.kind = FailureKind::kHostKeyRevoked}, "host key revoked: ", "ask the host's administrator"},
      {{.kind = FailureKind::kAuthRefused, .detail = "keys tried: a; b"}, "log-in refused: ", "install your key there"},
      {{.kind = FailureKind::kClosed}, "connection closed: ", "check sshd's log there"},
      {{.kind = FailureKind::kNoSsh}, "no ssh program: ", "install openssh-client"},
      {{.kind = FailureKind::kSshFailed}, "ssh failed: ", "try: ssh n2 true"},
      {{.kind = FailureKind::kNoSpace}, "no space for the agent: ", "free some"},
      {{.kind = FailureKind::kReadOnly}, "read-only file system: ", "choose another folder"},
      {{.kind = FailureKind::kNoWrite}, "agent cannot be stored: ", "check the folder's permissions"},
      {{.kind = FailureKind::kNoExec}, "agent cannot be run: ", "choose another folder"},
      {{.kind = FailureKind::kUnsafeFolder}, "unsafe folder for the agent: ", "choose another folder"},
      {{.kind = FailureKind::kWrongArch, .detail = "x"}, "other architecture: ", "build muster-agent"},
      {{.kind = FailureKind::kOtherBuild, .detail = "x"}, "agent from another build: ", "remove it"},
      {{.kind = FailureKind::kNoisyShell, .printed = "call me; now"},
       "\"call me; now\"",
       "remove output and exec from its start-up files"},
      {{.kind = FailureKind::kAgentFailed}, "agent failed: ", "run there"},
  };
  for (const SshRow& row : rows) {
    const Check check = check_ssh(failed(row.failure));
    EXPECT_EQ(check.state, CheckState::kFail);
    EXPECT_THAT(check.seen, HasSubstr(row.seen));
    EXPECT_THAT(check.advice, ::testing::StartsWith(row.advice)) << check.seen;
  }
}

TEST(CheckSsh, HowTheAgentCameUp) {
  HostFindings findings;
  findings.host.name = "n2";
  findings.backend = "libssh";
  findings.start_time = 45ms;
  EXPECT_EQ(check_ssh(findings).seen, "by libssh, agent found and up in 45 ms");
  findings.agent_sent = true;
  EXPECT_EQ(check_ssh(findings).seen, "by libssh, agent sent and up in 45 ms");
  findings.is_local = true;
  EXPECT_THAT(check_ssh(findings).seen, HasSubstr("not needed for this host"));
}

TEST(CheckSsh, AnAgentThatStoppedAnswering) {
  HostFindings findings;
  findings.status = base::error(base::Code::kDeadlineExceeded, "host n2: the agent did not answer within 10 s");
  EXPECT_EQ(check_ssh(findings).seen, "the agent did not answer within 10 s");
  EXPECT_NE(check_ssh(findings).advice, "");
}

v1::HostFacts dialled(const char* address, const char* failure) {
  v1::HostFacts facts;
  facts.mutable_launcher()->set_address(address);
  facts.mutable_launcher()->set_failure(failure);
  return facts;
}

TEST(CheckBackConnection, AndTheLinkThatFollows) {
  const v1::HostFacts reached = dialled("10.0.0.1", "");
  EXPECT_EQ(check_back_connection(reached, "auto").state, CheckState::kOk);
  EXPECT_THAT(check_back_connection(reached, "auto").seen, HasSubstr("10.0.0.1"));
  EXPECT_THAT(check_link(reached, "auto", false).seen, HasSubstr("dial: "));

  const v1::HostFacts blocked = dialled("", "10.0.0.1:99: no answer");
  EXPECT_EQ(check_back_connection(blocked, "auto").state, CheckState::kWarn);
  EXPECT_THAT(check_back_connection(blocked, "auto").seen, HasSubstr("10.0.0.1:99: no answer"));
  EXPECT_EQ(check_link(blocked, "auto", false).state, CheckState::kOk);
  EXPECT_THAT(check_link(blocked, "auto", false).seen, HasSubstr("ssh: through ssh, because"));

  EXPECT_EQ(check_back_connection(blocked, "dial").state, CheckState::kFail);
  EXPECT_EQ(check_link(blocked, "dial", false).state, CheckState::kFail);

  const v1::HostFacts not_tried;
  EXPECT_EQ(check_back_connection(not_tried, "ssh").seen, "not tried (--agent-link ssh)");
  EXPECT_THAT(check_link(not_tried, "ssh", false).seen, HasSubstr("as asked"));
}

TEST(CheckPeer, ReachedOrNot) {
  EXPECT_EQ(check_peer({.host = "n1", .address = "10.0.0.1", .failure = ""}),
            (Check{"peers", CheckState::kOk, "reaches n1 at 10.0.0.1", ""}));
  const Check check = check_peer({.host = "n1", .address = "10.0.0.1", .failure = "10.0.0.1:5: no answer"});
  EXPECT_EQ(check.state, CheckState::kFail);
  EXPECT_EQ(check.seen, "cannot reach n1 at 10.0.0.1: 10.0.0.1:5: no answer");
  EXPECT_THAT(check.advice, HasSubstr("--network"));
}

TEST(CheckClock, SkewBeyondItsUncertainty) {
  EXPECT_EQ(check_clock({.offset = -300us, .uncertainty = 120us}).seen, "-300 us from ours, +-120 us");
  EXPECT_EQ(check_clock({.offset = 999ms, .uncertainty = 0ms}).state, CheckState::kOk);
  EXPECT_EQ(check_clock({.offset = 1500ms, .uncertainty = 600ms}).state, CheckState::kOk);
  const Check late = check_clock({.offset = -90s, .uncertainty = 2ms});
  EXPECT_EQ(late.state, CheckState::kWarn);
  EXPECT_EQ(late.seen, "-90.0 s from ours, +-2.0 ms");
  EXPECT_THAT(late.advice, HasSubstr("chronyc makestep"));
  EXPECT_EQ(check_clock({.offset = 24h, .uncertainty = 2ms}).state, CheckState::kFail);
}

}  // namespace
}  // namespace muster::launcherd::checks_reach_test
