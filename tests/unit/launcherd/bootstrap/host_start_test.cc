// Tests odd hosts against a real sshd: noisy shells, no SFTP, and agents that cannot be stored or run.
#include "launcherd/bootstrap/host_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/unit/launcherd/bootstrap/test_sshd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::host_start_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HostStartTest : public ::testing::TestWithParam<SshBackend> {
 protected:
  void SetUp() override { ::unsetenv("SSH_AUTH_SOCK"); }

  // Returns false, and skips the test, if the machine has no sshd.
  bool has_sshd(const TestSshdOptions& options) {
    sshd_ = std::make_unique<TestSshd>(options);
    if (sshd_->why_not().empty()) return true;
    [this] { GTEST_SKIP() << sshd_->why_not(); }();
    return false;
  }
  base::Result<StartedAgent> start(const std::string& agent_dir = "") {
    auto options = sshd_->options(GetParam());
    options.agent_dir = agent_dir;
    options.on_note = [this](const std::string&, const std::string& line) {
      const std::lock_guard lock(mutex_);
      if (line.find("failed") == std::string::npos) return;
      ++notes_;
      last_note_ = line;
    };
    bootstrap_ = std::make_unique<SshBootstrap>(options, image_ ? *image_ : sshd_->image(), sshd_->surroundings());
    return start_agent(*bootstrap_, sshd_->target());
  }
  std::size_t notes() {
    const std::lock_guard lock(mutex_);
    return notes_;
  }
  void expect_started(const base::Result<StartedAgent>& agent, bool is_sent) {
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(agent->agent_sent, is_sent);
    EXPECT_EQ(read_up_to(agent->stream.get(), 6), "ready\n");
    expect_echo(*agent, "hello\n");
  }
  std::size_t files_in_cache() const {
    std::error_code ignored;
    const std::filesystem::directory_iterator files(sshd_->home() + "/.cache/muster", ignored);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  std::unique_ptr<TestSshd> sshd_;
  std::optional<AgentImage> image_;
  std::mutex mutex_;
  std::size_t notes_ = 0;
  std::string last_note_;
  std::unique_ptr<SshBootstrap> bootstrap_;
};

INSTANTIATE_TEST_SUITE_P(Backends, HostStartTest, ::testing::Values(SshBackend::kLibssh, SshBackend::kSsh),
                         [](const auto& backend) { return backend.param == SshBackend::kSsh ? "Ssh" : "Libssh"; });

// The noise breaks SFTP as well, because the same shell starts the SFTP server.
TEST_P(HostStartTest, ANoisyShellIsSkipped) {
  if (!has_sshd({.bashrc = "echo 'Welcome to n1!'; printf 'no newline'; echo 'a warning' >&2\n"})) return;
  expect_started(start(), true);
  expect_started(start(), false);
  EXPECT_EQ(files_in_cache(), 1u);
}

TEST_P(HostStartTest, TheCompressedAgentNeedsNoSftp) {
  if (!has_sshd({.subsystem = "/bin/false"})) return;
  expect_started(start(), true);
  expect_started(start(), false);
  EXPECT_EQ(files_in_cache(), 1u);
  EXPECT_EQ(read_text(sshd_->cached_agent()), read_text(fake_agent_path()));
}

// Each of these hosts cannot unpack, so it gets the plain agent by SFTP.
TEST_P(HostStartTest, HostsThatCannotUnpackGetThePlainAgent) {
  const testing_support::TempDir programs;
  ::chmod(programs.write("head", "#!/bin/sh\necho \"head: invalid option -- 'c'\" >&2; exit 1\n").c_str(), 0700);
  if (!has_sshd({.bashrc = "PATH=" + programs.path() + ":$PATH\n"})) return;
  expect_started(start(), true);
  EXPECT_EQ(notes(), 1u);
  expect_started(start(), false);
  EXPECT_EQ(files_in_cache(), 1u);
  EXPECT_EQ(read_text(sshd_->cached_agent()), read_text(fake_agent_path()));
}

TEST_P(HostStartTest, AnAgentWithoutCompressedFormGoesBySftp) {
  const testing_support::TempDir folder;
  std::filesystem::copy_file(fake_agent_path(), folder / "agent");
  if (!has_sshd({})) return;
  image_ = *AgentImage::open(folder / "agent");
  expect_started(start(), true);
  EXPECT_EQ(notes(), 0u);
  EXPECT_EQ(files_in_cache(), 1u);
}

// A wrong file beside the agent: the host refuses it by the hash, and nothing of it is used.
TEST_P(HostStartTest, AWrongCompressedAgentIsRefusedByItsHash) {
  const testing_support::TempDir folder;
  std::filesystem::copy_file(fake_agent_path(), folder / "agent");
  std::filesystem::copy_file(MUSTER_TEST_PROGRAMS "/muster-unpack", folder / "muster-unpack");
  std::filesystem::copy_file(fake_agent_path() + ".zst", folder / "agent.zst");
  { std::ofstream(folder / "agent", std::ios::app) << 'x'; }  // another agent of another size than the compressed one
  if (!has_sshd({})) return;
  image_ = *AgentImage::open(folder / "agent");
  expect_started(start(), true);
  EXPECT_EQ(notes(), 1u);
  EXPECT_THAT(last_note_, AllOf(HasSubstr("sending the compressed agent failed"), HasSubstr("bytes instead of")));
  EXPECT_EQ(files_in_cache(), 1u);
  EXPECT_EQ(read_text(sshd_->cached_agent()), read_text(folder / "agent"));
}

TEST_P(HostStartTest, AShellThatEndsItself) {
  if (!has_sshd({.bashrc = "echo 'This account is currently not available.'; exit 1\n"})) return;
  const auto agent = start();
  EXPECT_THAT(agent.status().message(),
              AllOf(HasSubstr("host 127.0.0.1: no agent answered; the login shell ended with"),
                    HasSubstr("\"This account is currently not available.\"")));
}

TEST_P(HostStartTest, AShellThatNeverEnds) {
  if (!has_sshd({.bashrc = "echo waiting; read -r line < /dev/tty || exec sleep 30\n"})) return;
  auto options = sshd_->options(GetParam());
  options.start_timeout = std::chrono::milliseconds(2500);
  SshBootstrap bootstrap(options, sshd_->image(), sshd_->surroundings());
  EXPECT_EQ(start_agent(bootstrap, sshd_->target()).status().code(), base::Code::kDeadlineExceeded);
}

TEST_P(HostStartTest, NoRoomForTheAgent) {
  // A limit on file sizes stands for a full disk. Only the message of head differs.
  if (!has_sshd({.bashrc = "ulimit -f 8\n"})) return;
  const auto agent = start();
  EXPECT_EQ(agent.status().code(), base::Code::kResourceExhausted) << agent.status();
  EXPECT_THAT(agent.status().message(), AllOf(HasSubstr("no space left"), HasSubstr("--agent-dir DIR")));
  EXPECT_EQ(files_in_cache(), 0u);
}

TEST_P(HostStartTest, ADirectoryThatCannotBeMade) {
  if (!has_sshd({})) return;
  const auto agent = start("/proc/muster");
  EXPECT_THAT(agent.status().message(),
              AllOf(HasSubstr("cannot store the agent in /proc/muster"), HasSubstr("--agent-dir")));
}

TEST_P(HostStartTest, AnotherDirectory) {
  if (!has_sshd({})) return;
  const std::string directory = sshd_->directory() + "/scratch/x";
  expect_started(start(directory), true);
  expect_started(start(directory), false);
  if (::getuid() == 0) {  // a file that another user put there is replaced, not run
    ASSERT_EQ(::chown((directory + "/agent-fake-build-x86_64").c_str(), 65534, 65534), 0);
    expect_started(start(directory), true);
  }
}

TEST_P(HostStartTest, AnAgentThatMayNotBeRun) {
  if (!has_sshd({})) return;
  std::filesystem::create_directories(sshd_->home() + "/.cache/muster");
  write_file(sshd_->cached_agent(), "x");
  ::chmod(sshd_->cached_agent().c_str(), 0600);
  const auto agent = start();
  EXPECT_THAT(agent.status().message(), AllOf(HasSubstr("cannot run programs in"), HasSubstr("--agent-dir DIR")));
}

TEST_P(HostStartTest, AnotherArchitecture) {
  const testing_support::TempDir programs;
  ::chmod(programs.write("uname", "#!/bin/sh\necho Linux aarch64\n").c_str(), 0700);
  if (!has_sshd({.bashrc = "PATH=" + programs.path() + ":$PATH\n"})) return;
  const auto agent = start();
  EXPECT_EQ(agent.status().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(agent.status().message(), HasSubstr("this agent runs on Linux x86_64, but the host runs Linux aarch64"));
  EXPECT_EQ(files_in_cache(), 0u);
}

TEST_P(HostStartTest, AnAgentOfAnotherBuild) {
  if (!has_sshd({})) return;
  expect_started(start(), true);
  auto options = sshd_->options(GetParam());
  options.agent_id = "new-build";
  std::filesystem::copy_file(sshd_->cached_agent(), sshd_->home() + "/.cache/muster/agent-new-build-x86_64");
  SshBootstrap bootstrap(options, sshd_->image(), sshd_->surroundings());
  EXPECT_THAT(start_agent(bootstrap, sshd_->target()).status().message(),
              AllOf(HasSubstr("another build (fake-build)"), HasSubstr("remove it")));
}

TEST_P(HostStartTest, EveryShellReadsTheCommands) {
  for (const char* shell :
       {"/bin/dash", "/bin/bash", "/bin/tcsh", "/bin/csh", "/usr/bin/fish", "/bin/zsh", "/bin/ksh"}) {
    if (::access(shell, X_OK) != 0) continue;
    if (!has_sshd({.extra_config = std::string("ForceCommand exec ") + shell + " -c \"$SSH_ORIGINAL_COMMAND\""}))
      return;
    SCOPED_TRACE(shell);
    expect_started(start(), true);
    expect_started(start(), false);
    expect_started(start("~/elsewhere"), true);
    expect_started(start(sshd_->directory() + "/scratch"), true);
  }
}

TEST_P(HostStartTest, ABusySshdIsAskedAgain) {
  if (!has_sshd({.extra_config = "MaxStartups 1:100:1"})) return;
  auto options = sshd_->options(GetParam());
  options.start_timeout = std::chrono::seconds(45);
  bootstrap_ = std::make_unique<SshBootstrap>(options, sshd_->image(), sshd_->surroundings());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      auto agent = start_agent(*bootstrap_, sshd_->target());
      EXPECT_TRUE(agent.ok()) << agent.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(HostStartTest, AServerThatAlwaysHangsUp) {
  if (!has_sshd({})) return;
  const base::UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), 0);
  ASSERT_EQ(::bind(server.get(), address.get(), address.size), 0);
  ASSERT_EQ(::listen(server.get(), 16), 0);
  std::thread hang_up([&] {
    for (;;) {
      const base::UniqueFd connection(::accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
    }
  });
  auto options = sshd_->options(GetParam());
  options.start_timeout = std::chrono::milliseconds(1500);
  SshBootstrap bootstrap(options, sshd_->image(), sshd_->surroundings());
  const auto agent = start_agent(bootstrap, {.name = "127.0.0.1", .port = *base::local_port(server.get())});
  EXPECT_THAT(agent.status().message(), HasSubstr("closed during the log-in"));
  ::shutdown(server.get(), SHUT_RDWR);
  hang_up.join();
}

constexpr auto kPatience = std::chrono::seconds(20);

class SendGateTest : public ::testing::Test {
 protected:
  SendGate::Turn enter(base::MonotonicTime probed_at) { return gate_.enter(probed_at, waiter_, temporary_); }

  SendGate gate_;
  const Waiter waiter_{-1, std::chrono::steady_clock::now() + kPatience};
  const base::MonotonicTime probed_at_ = std::chrono::steady_clock::now();
  std::string temporary_;
};

TEST_F(SendGateTest, OthersWaitForTheFirstOnesFileOnly) {
  ASSERT_EQ(enter(probed_at_), SendGate::Turn::kFirst);
  std::thread other([this] {
    std::string temporary;
    EXPECT_EQ(gate_.enter(probed_at_, waiter_, temporary), SendGate::Turn::kBeside);
    EXPECT_EQ(temporary, "~/.x");
  });
  gate_.announce("~/.x");
  other.join();
  std::thread sharing([this] { EXPECT_TRUE(gate_.await_first(waiter_)); });
  gate_.leave(true);
  sharing.join();
  EXPECT_EQ(enter(probed_at_), SendGate::Turn::kBeside);  // the agent may be there by now
  EXPECT_EQ(temporary_, "");
  EXPECT_EQ(enter(std::chrono::steady_clock::now()), SendGate::Turn::kSend);
}

TEST_F(SendGateTest, AfterAFailureTheNextIsTheFirst) {
  ASSERT_EQ(enter(probed_at_), SendGate::Turn::kFirst);
  gate_.announce("~/.x");
  gate_.leave(false);
  EXPECT_EQ(enter(probed_at_), SendGate::Turn::kFirst);
  CancelSource cancel;
  cancel.cancel();
  const Waiter cancelled{cancel.fd(), waiter_.deadline};
  EXPECT_EQ(gate_.enter(probed_at_, cancelled, temporary_), SendGate::Turn::kCancelled);
  EXPECT_FALSE(gate_.await_first(cancelled));
}

TEST(OutputAfterMarkerTest, DropsWhatCameBefore) {
  EXPECT_EQ(output_after_marker("motd\nMUSTER-AGENT 1 x\nswept\n"), "swept\n");
  EXPECT_EQ(output_after_marker("swept\n"), "swept\n");
  EXPECT_EQ(output_after_marker("MUSTER-AGENT 1 x"), "MUSTER-AGENT 1 x");
}

}  // namespace
}  // namespace muster::launcherd::host_start_test
