// Tests odd hosts against a real sshd: noisy shells, no SFTP, and agents that cannot be stored or run.
#include "launcherd/bootstrap/host_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
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
    bootstrap_ = std::make_unique<SshBootstrap>(options, sshd_->image(), sshd_->surroundings());
    return start_agent(*bootstrap_, sshd_->target());
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

TEST_P(HostStartTest, WithoutSftpAShellReceivesTheAgent) {
  if (!has_sshd({.subsystem = "/bin/false"})) return;
  expect_started(start(), true);
  expect_started(start(), false);
  EXPECT_EQ(files_in_cache(), 1u);
  EXPECT_EQ(read_text(sshd_->cached_agent()), read_text(fake_agent_path()));
}

TEST_P(HostStartTest, SftpInAnotherTreeIsNotEnough) {
  const testing_support::TempDir elsewhere;
  const std::string sftp =
      elsewhere.write("sftp", "#!/bin/sh\ncd " + elsewhere.path() + " && exec /usr/lib/openssh/sftp-server\n");
  ::chmod(sftp.c_str(), 0700);
  if (has_sshd({.subsystem = sftp})) {
    expect_started(start(), true);
    EXPECT_TRUE(std::filesystem::is_empty(elsewhere / ".cache/muster"));
  }
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
  if (!has_sshd({.bashrc = "uname() { echo Linux aarch64; }\n"})) return;
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

TEST(SendGateTest, TheFirstSendsTheOthersLookAgain) {
  SendGate gate;
  const Waiter waiter{-1, std::chrono::steady_clock::now() + std::chrono::seconds(20)};
  const auto probed_at = std::chrono::steady_clock::now();
  ASSERT_EQ(gate.enter(probed_at, waiter), SendGate::Turn::kSend);
  std::thread other([&] { EXPECT_EQ(gate.enter(probed_at, waiter), SendGate::Turn::kProbeAgain); });
  gate.leave(true);
  other.join();
  EXPECT_EQ(gate.enter(std::chrono::steady_clock::now(), waiter), SendGate::Turn::kSend);
  EXPECT_EQ(gate.enter(std::chrono::steady_clock::now(), waiter), SendGate::Turn::kSend);
}

TEST(SendGateTest, AfterAFailureTheNextSends) {
  SendGate gate;
  const Waiter waiter{-1, std::chrono::steady_clock::now() + std::chrono::seconds(20)};
  const auto probed_at = std::chrono::steady_clock::now();
  ASSERT_EQ(gate.enter(probed_at, waiter), SendGate::Turn::kSend);
  gate.leave(false);
  EXPECT_EQ(gate.enter(probed_at, waiter), SendGate::Turn::kSend);
  CancelSource cancel;
  cancel.cancel();
  EXPECT_EQ(gate.enter(probed_at, {cancel.fd(), waiter.deadline}), SendGate::Turn::kCancelled);
}

TEST(OutputAfterMarkerTest, DropsWhatCameBefore) {
  EXPECT_EQ(output_after_marker("motd\nMUSTER-AGENT 1 x\nswept\n"), "swept\n");
  EXPECT_EQ(output_after_marker("swept\n"), "swept\n");
  EXPECT_EQ(output_after_marker("MUSTER-AGENT 1 x"), "MUSTER-AGENT 1 x");
}

}  // namespace
}  // namespace muster::launcherd::host_start_test
