// Tests SshBootstrap against a real sshd.
#include "launcherd/ssh/ssh_bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/unit/launcherd/bootstrap/test_sshd.h"

namespace muster::launcherd::ssh_bootstrap_test {
namespace {

using ::testing::HasSubstr;

class SshBootstrapTest : public ::testing::TestWithParam<SshBackend> {
 protected:
  void SetUp() override {
    ::unsetenv("SSH_AUTH_SOCK");
    if (!sshd_.why_not().empty()) GTEST_SKIP() << sshd_.why_not();
  }
  std::unique_ptr<SshBootstrap> make(BootstrapOptions options) {
    return std::make_unique<SshBootstrap>(std::move(options), sshd_.image(), sshd_.surroundings());
  }
  TestSshd sshd_;
};

TEST_P(SshBootstrapTest, SendsTheAgentOnceThenFindsIt) {
  const OwnResources before = own_resources();
  std::atomic<int> sftp_failures = 0;
  {
    auto options = sshd_.options(GetParam());
    options.on_note = [&](const std::string&, const std::string& line) {
      sftp_failures += line.starts_with("SFTP") ? 1 : 0;
    };
    auto bootstrap = make(options);
    auto first = start_agent(*bootstrap, sshd_.target(), "join\n");
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE(first->agent_sent);
    EXPECT_EQ(read_up_to(first->stream.get(), 11), "ready\njoin\n");
    expect_echo(*first, "hello\n");
    auto second = start_agent(*bootstrap, sshd_.target());
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_FALSE(second->agent_sent);
    EXPECT_EQ(second->backend, GetParam() == SshBackend::kSsh ? "ssh" : "libssh");
    EXPECT_EQ(read_up_to(second->stream.get(), 6), "ready\n");
    ::shutdown(second->stream.get(), SHUT_WR);
    EXPECT_EQ(read_up_to(second->stream.get(), 1), "");  // the agent read EOF and ended
  }
  EXPECT_LE(own_resources(), before);
  EXPECT_EQ(sftp_failures, 0);
  struct stat info {};
  ASSERT_EQ(::stat(sshd_.cached_agent().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_EQ(read_text(sshd_.cached_agent()), read_text(fake_agent_path()));
  ASSERT_EQ(::stat((sshd_.home() + "/.cache/muster").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_P(SshBootstrapTest, CarriesManyBytesBothWays) {
  auto bootstrap = make(sshd_.options(GetParam()));
  auto agent = start_agent(*bootstrap, sshd_.target());
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(read_up_to(agent->stream.get(), 6), "ready\n");
  std::string bytes;
  for (std::uint32_t i = 0; bytes.size() < (8u << 20); ++i) bytes.append(reinterpret_cast<const char*>(&i), sizeof i);
  std::thread writer([&] {
    EXPECT_TRUE(base::write_all_blocking(agent->stream.get(), bytes.data(), bytes.size()).ok());
    ::shutdown(agent->stream.get(), SHUT_WR);
  });
  EXPECT_TRUE(read_up_to(agent->stream.get(), bytes.size() + 1) == bytes);
  writer.join();
}

TEST_P(SshBootstrapTest, SixteenAtOnceSendTheAgentOnce) {
  auto bootstrap = make(sshd_.options(GetParam()));
  std::vector<std::thread> threads;
  std::atomic<int> sent = 0;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      auto agent = start_agent(*bootstrap, sshd_.target());
      ASSERT_TRUE(agent.ok()) << agent.status();
      EXPECT_EQ(read_up_to(agent->stream.get(), 6), "ready\n");
      expect_echo(*agent, "x");
      sent += agent->agent_sent ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sent, 1);
}

TEST_P(SshBootstrapTest, RunsTheAgentToItsEnd) {
  auto bootstrap = make(sshd_.options(GetParam()));
  auto result = run_agent(*bootstrap, sshd_.target(), {"--sweep", "abcd2345"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_status, 7);
  EXPECT_EQ(result->output, "swept abcd2345\n");
  EXPECT_EQ(run_agent(*bootstrap, sshd_.target(), {"a b"}).status().code(), base::Code::kInvalidArgument);
}

TEST_P(SshBootstrapTest, PassesTheAgentsStderrOnByLines) {
  std::mutex mutex;
  std::string lines;
  auto options = sshd_.options(GetParam());
  const auto add = [&](const std::string&, const std::string& line) {
    const std::lock_guard lock(mutex);
    lines += line + "\n";
  };
  options.on_stderr = add;
  options.on_note = add;  // notes before the marker
  auto bootstrap = make(options);
  auto agent = start_agent(*bootstrap, sshd_.target());
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(read_up_to(agent->stream.get(), 6), "ready\n");
  ::shutdown(agent->stream.get(), SHUT_WR);
  EXPECT_EQ(read_up_to(agent->stream.get(), 1), "");
  bootstrap.reset();
  EXPECT_THAT(lines, HasSubstr("fake agent is up\n"));
}

TEST_P(SshBootstrapTest, AcceptsANewHostKeyOnceWithOneNote) {
  std::atomic<int> notes = 0;
  auto options = sshd_.options(GetParam());
  options.on_stderr = [&](const std::string&, const std::string& line) {
    const bool is_about_key =
        line.find("new host key") != std::string::npos || line.find("Permanently added") != std::string::npos;
    notes += is_about_key ? 1 : 0;
  };
  auto bootstrap = make(options);
  ASSERT_TRUE(start_agent(*bootstrap, sshd_.target()).ok());
  EXPECT_EQ(notes, 1);
  const std::string known = read_text(sshd_.known_hosts());
  EXPECT_THAT(known, HasSubstr("[127.0.0.1]:" + std::to_string(sshd_.port()) + " ssh-ed25519 "));
  ASSERT_TRUE(start_agent(*bootstrap, sshd_.target()).ok());
  EXPECT_EQ(read_text(sshd_.known_hosts()), known);
}

TEST_P(SshBootstrapTest, RefusesAnUnknownKeyWhenStrict) {
  write_file(sshd_.client_config(), "StrictHostKeyChecking yes\n");
  auto bootstrap = make(sshd_.options(GetParam()));
  const auto agent = start_agent(*bootstrap, sshd_.target());
  EXPECT_EQ(agent.status().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(agent.status().message(), HasSubstr("host 127.0.0.1: its host key is unknown"));
  EXPECT_EQ(::access(sshd_.known_hosts().c_str(), F_OK), -1);
}

TEST_P(SshBootstrapTest, RefusesAChangedHostKey) {
  const std::string other = read_text(sshd_.key() + ".pub");
  write_file(sshd_.known_hosts(), "[127.0.0.1]:" + std::to_string(sshd_.port()) + " " + other);
  auto bootstrap = make(sshd_.options(GetParam()));
  const auto agent = start_agent(*bootstrap, sshd_.target());
  EXPECT_EQ(agent.status().code(), base::Code::kFailedPrecondition);
  EXPECT_THAT(agent.status().message(), HasSubstr("ssh-keygen -R '[127.0.0.1]:" + std::to_string(sshd_.port()) + "'"));
}

TEST_P(SshBootstrapTest, SaysWhichKeyWasRefused) {
  auto options = sshd_.options(GetParam());
  options.identity_file = sshd_.directory() + "/server/host_key";  // a key, but not an authorised one
  auto bootstrap = make(options);
  const auto agent = start_agent(*bootstrap, sshd_.target());
  EXPECT_EQ(agent.status().code(), base::Code::kUnauthenticated);
  EXPECT_THAT(agent.status().message(), HasSubstr("host 127.0.0.1: sshd did not accept user "));
  if (GetParam() == SshBackend::kLibssh) {
    EXPECT_THAT(agent.status().message(), HasSubstr("tried " + options.identity_file));
  }
}

TEST_P(SshBootstrapTest, NothingListens) {
  auto bootstrap = make(sshd_.options(GetParam()));
  const auto agent = start_agent(*bootstrap, {.name = "127.0.0.1", .port = 1});
  EXPECT_EQ(agent.status().code(), base::Code::kUnavailable);
  EXPECT_THAT(agent.status().message(), HasSubstr("127.0.0.1 port 1 (connection refused)"));
}

TEST_P(SshBootstrapTest, ANameThatIsNotKnown) {
  auto bootstrap = make(sshd_.options(GetParam()));
  const auto agent = start_agent(*bootstrap, {.name = "no-such-host.invalid"});
  EXPECT_EQ(agent.status().code(), base::Code::kNotFound) << agent.status();
  EXPECT_THAT(agent.status().message(), HasSubstr("host no-such-host.invalid: cannot resolve the name"));
}

TEST_P(SshBootstrapTest, ANameNeverBecomesAnOption) {
  auto bootstrap = make(sshd_.options(GetParam()));
  for (const char* name : {"-oProxyCommand=true", "", "a;b", "a b", "$(x)"}) {
    EXPECT_EQ(start_agent(*bootstrap, {.name = name}).status().code(), base::Code::kInvalidArgument) << name;
  }
  EXPECT_EQ(start_agent(*bootstrap, {.name = "n1", .user = "-l"}).status().code(), base::Code::kInvalidArgument);
}

// Accepts connections and never sends a byte.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), 0);
    EXPECT_EQ(::bind(socket_.get(), address.get(), address.size), 0);
    EXPECT_EQ(::listen(socket_.get(), 64), 0);
  }
  int port() const { return *base::local_port(socket_.get()); }

 private:
  base::UniqueFd socket_;
};

TEST_P(SshBootstrapTest, AServerThatSaysNothingTimesOut) {
  const SilentServer server;
  auto options = sshd_.options(GetParam());
  options.start_timeout = std::chrono::milliseconds(1000);
  auto bootstrap = make(options);
  const auto begin = std::chrono::steady_clock::now();
  const auto agent = start_agent(*bootstrap, {.name = "127.0.0.1", .port = server.port()});
  EXPECT_EQ(agent.status().code(), base::Code::kDeadlineExceeded) << agent.status();
  EXPECT_THAT(agent.status().message(), HasSubstr(std::to_string(server.port())));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_P(SshBootstrapTest, CancelEndsWhatIsInFlightAndQueued) {
  const SilentServer server;
  auto options = sshd_.options(GetParam());
  options.max_parallel = 4;
  auto bootstrap = make(options);
  std::vector<std::future<base::Result<StartedAgent>>> futures;
  for (int i = 0; i < 8; ++i) {
    auto promise = std::make_shared<std::promise<base::Result<StartedAgent>>>();
    futures.push_back(promise->get_future());
    bootstrap->start({.name = "127.0.0.1", .port = server.port()}, ready_join(std::string()),
                     [promise](auto result) { promise->set_value(std::move(result)); });
  }
  const auto begin = std::chrono::steady_clock::now();
  bootstrap->cancel();
  bootstrap->cancel();
  for (auto& future : futures) {
    ASSERT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    EXPECT_EQ(future.get().status().code(), base::Code::kCancelled);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(start_agent(*bootstrap, sshd_.target()).status().code(), base::Code::kCancelled);
}

TEST_P(SshBootstrapTest, DestructionEndsRunningAgents) {
  const OwnResources before = own_resources();
  base::UniqueFd stream;
  {
    auto bootstrap = make(sshd_.options(GetParam()));
    auto agent = start_agent(*bootstrap, sshd_.target());
    ASSERT_TRUE(agent.ok()) << agent.status();
    stream = std::move(agent->stream);
    EXPECT_EQ(read_up_to(stream.get(), 6), "ready\n");
  }
  EXPECT_EQ(read_up_to(stream.get(), 1), "");
  stream.reset();
  EXPECT_LE(own_resources(), before);
}

INSTANTIATE_TEST_SUITE_P(Backends, SshBootstrapTest, ::testing::Values(SshBackend::kLibssh, SshBackend::kSsh),
                         [](const auto& backend) { return backend.param == SshBackend::kSsh ? "Ssh" : "Libssh"; });

TEST(SshBootstrapAutoTest, ChoosesByConfiguration) {
  ::unsetenv("SSH_AUTH_SOCK");
  TestSshd sshd;
  if (!sshd.why_not().empty()) GTEST_SKIP() << sshd.why_not();
  const auto backend_with = [&](const std::string& config) {
    write_file(sshd.client_config(), config);
    SshBootstrap bootstrap(sshd.options(SshBackend::kAuto), sshd.image(), sshd.surroundings());
    auto agent = start_agent(bootstrap, sshd.target());
    return agent.ok() ? agent->backend : agent.status().message();
  };
  EXPECT_EQ(backend_with("Host *\n  SendEnv LANG LC_*\n  HashKnownHosts yes\n  GSSAPIAuthentication yes\n"), "libssh");
  EXPECT_EQ(backend_with("Match all\n  Compression yes\n"), "ssh");
  EXPECT_EQ(backend_with("Host other\n  ProxyJump gate\n"), "libssh");
}

// Checks the purpose of our own poll loop: it takes a quarter of the ssh program's time on a quiet machine. The test
// compares both, because a machine that runs tests is not quiet.
TEST(SshBootstrapAutoTest, LibsshLogsInFasterThanTheSshProgram) {
  ::unsetenv("SSH_AUTH_SOCK");
  TestSshd sshd;
  if (!sshd.why_not().empty()) GTEST_SKIP() << sshd.why_not();
  const auto best_of = [&](SshBackend backend) {
    SshBootstrap bootstrap(sshd.options(backend), sshd.image(), sshd.surroundings());
    EXPECT_TRUE(start_agent(bootstrap, sshd.target()).ok());
    double best = 1e9;
    for (int i = 0; i < 7; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const auto agent = start_agent(bootstrap, sshd.target());
      EXPECT_TRUE(agent.ok()) << agent.status();
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  };
  const double libssh = best_of(SshBackend::kLibssh);
  const double ssh = best_of(SshBackend::kSsh);
  RecordProperty("libssh_ms", std::to_string(libssh));
  RecordProperty("ssh_ms", std::to_string(ssh));
  EXPECT_LT(libssh, ssh);
}

}  // namespace
}  // namespace muster::launcherd::ssh_bootstrap_test
