#include "launcherd/site/site_bootstrap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <future>
#include <mutex>

#include "base/net.h"
#include "base/tls.h"
#include "proto/enrolment.h"
#include "proto/join_file.h"
#include "tests/unit/launcherd/bootstrap/test_sshd.h"

namespace muster::launcherd::site_bootstrap_test {
namespace {

using ::testing::HasSubstr;

class SiteBootstrapTest : public ::testing::Test {
 protected:
  std::unique_ptr<SiteBootstrap> make(const std::string& command, BootstrapBy by = BootstrapBy::kCommand) {
    BootstrapOptions options;
    options.by = by;
    options.command = command;
    options.agent_path = fake_agent_path();
    options.agent_id = "fake-build";
    options.agent_dir = directory / "agents";
    options.start_timeout = start_timeout;
    options.on_stderr = [this](const std::string& host, const std::string& line) {
      const std::lock_guard lock(mutex);
      lines += host + ": " + line + "\n";
    };
    auto image = AgentImage::open(options.agent_path);
    EXPECT_TRUE(image.ok()) << image.status();
    auto made = SiteBootstrap::make(options, *image, {directory.path(), "alice"});
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(*made);
  }

  std::vector<std::string> start_all(SiteBootstrap& bootstrap, const std::vector<std::string>& hosts) {
    std::vector<BootstrapTarget> targets;
    for (const std::string& host : hosts) targets.push_back({.name = host});
    bootstrap.expect(targets);
    std::vector<std::future<std::string>> ends;
    for (const BootstrapTarget& target : targets) {
      auto promise = std::make_shared<std::promise<std::string>>();
      ends.push_back(promise->get_future());
      bootstrap.start(target, ready_join(std::string("join")), [promise](base::Result<StartedAgent> agent) {
        promise->set_value(agent.ok() ? "started" : agent.status().message());
      });
    }
    std::vector<std::string> messages;
    for (auto& end : ends) messages.push_back(end.get());
    return messages;
  }

  std::size_t join_files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory / "agents")) {
      if (entry.path().filename().string().starts_with("join-")) ++count;
    }
    return count;
  }

  testing_support::TempDir directory;
  std::chrono::milliseconds start_timeout{20'000};
  std::mutex mutex;
  std::string lines;
};

// Reads a line from a FIFO that the programs under test write.
std::string read_line(int fd) {
  std::string line;
  for (char c = 0; ::read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

base::MonotonicTime soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

// Does what an agent of `host` does first, with the only join file in `directory`.
base::TlsStream enrol(const std::string& directory, const std::string& host) {
  base::Result<proto::JoinFile> file = base::error(base::Code::kNotFound, "no join file");
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with("join-")) file = proto::parse_join_file(read_text(entry.path()));
  }
  EXPECT_TRUE(file.ok()) << file.status();
  const auto context = base::TlsContext::client({file->identity, file->token});
  base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), file->port);
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
  base::TlsStream stream(*context, std::move(fd));
  EXPECT_TRUE(stream.handshake_blocking(soon(), -1).ok());
  const std::string hello = proto::encode_hello({.build_id = "fake-build", .names = {host}});
  EXPECT_TRUE(stream.write_all_blocking(hello.data(), hello.size(), soon(), -1).ok());
  std::string header(proto::kEnrolmentHeader, '\0');
  EXPECT_TRUE(stream.read_exactly_blocking(header.data(), header.size(), soon(), -1).ok());
  const auto size = proto::enrolment_size(header);
  std::string answer(size.ok() ? *size : 0, '\0');
  EXPECT_TRUE(stream.read_exactly_blocking(answer.data(), answer.size(), soon(), -1).ok());
  const std::string marker = "MUSTER-AGENT 1 fake-build\n";
  EXPECT_TRUE(stream.write_all_blocking(marker.data(), marker.size(), soon(), -1).ok());
  return stream;
}

TEST_F(SiteBootstrapTest, AProgramOfAGivenUpWaveIsEndedWithWhatItStarted) {
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto bootstrap =
      make("sh -c 'exec 3>" + fifo + "; " MUSTER_TEST_PROGRAMS "/sleeper & echo up >&3; wait' sh {host} {cmd}");
  auto messages = std::async(std::launch::async, [&] { return start_all(*bootstrap, {"n1"}); });
  const base::UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(read_line(reader.get()), "up");
  bootstrap->cancel();
  EXPECT_EQ(messages.get()[0], "host n1: cancelled");
  pollfd end{reader.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 20'000), 1);  // no process holds the other end while the bootstrap lives
  EXPECT_EQ(read_line(reader.get()), "");
}

TEST_F(SiteBootstrapTest, AProgramWithAnAgentOutlivesUs) {
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto bootstrap = make("sh -c 'echo $$ >" + fifo + "; exec " MUSTER_TEST_PROGRAMS "/sleeper' sh {host} {cmd}");
  auto messages = std::async(std::launch::async, [&] { return start_all(*bootstrap, {"n1"}); });
  const base::UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
  const pid_t program = std::stoi(read_line(reader.get()));
  const base::TlsStream agent = enrol(directory / "agents", "n1");
  EXPECT_EQ(messages.get()[0], "started");
  bootstrap.reset();
  EXPECT_EQ(::waitpid(program, nullptr, WNOHANG), 0);  // the program still runs
  EXPECT_EQ(::kill(program, SIGKILL), 0);
  EXPECT_EQ(::waitpid(program, nullptr, 0), program);
}

TEST_F(SiteBootstrapTest, ListsOfHostsThatAKilledLauncherLeftAreRemoved) {
  auto image = AgentImage::open(fake_agent_path());
  ASSERT_TRUE(image.ok());
  const std::string folder = directory.path();
  for (const char* const name : {"join-old.hosts", "join-used", "join-used.hosts", "join-new.hosts"}) {
    write_file(directory / name, "n1\n");
    if (std::string_view(name) == "join-new.hosts") continue;
    std::filesystem::last_write_time(directory / name,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  }
  ASSERT_TRUE(place_agent(folder, "id", *image).ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "join-old.hosts"));
  EXPECT_TRUE(std::filesystem::exists(directory / "join-used.hosts"));
  EXPECT_TRUE(std::filesystem::exists(directory / "join-new.hosts"));
}

TEST_F(SiteBootstrapTest, ACommandThatFailsIsToldForEachHostAndLeavesNoFile) {
  const OwnResources before = own_resources();
  {
    const auto bootstrap = make("sh -c 'echo no node $1 >&2; exit 4' sh {host} {cmd}");
    const auto messages = start_all(*bootstrap, {"n1", "n2"});
    EXPECT_EQ(messages[0], "host n1: sh ended with exit status 4 before the agent there enrolled: \"no node n1\"");
    EXPECT_EQ(messages[1], "host n2: sh ended with exit status 4 before the agent there enrolled: \"no node n2\"");
    EXPECT_EQ(join_files(), 0u);
  }
  EXPECT_THAT(lines, HasSubstr("n1: no node n1\n"));
  EXPECT_LE(own_resources(), before);
}

TEST_F(SiteBootstrapTest, AProgramThatIsNotThereIsNamed) {
  const auto bootstrap = make("/nowhere/rsh {host} {cmd}");
  EXPECT_THAT(start_all(*bootstrap, {"n1"})[0], HasSubstr("host n1: cannot start /nowhere/rsh"));
}

TEST_F(SiteBootstrapTest, AHostWithoutAnAgentIsNamedInTime) {
  start_timeout = std::chrono::milliseconds(300);
  const OwnResources before = own_resources();
  {
    const auto bootstrap = make(MUSTER_TEST_PROGRAMS "/sleeper {host} {cmd}");
    EXPECT_THAT(start_all(*bootstrap, {"n1"})[0], HasSubstr("host n1: its agent did not connect within 1 s"));
    EXPECT_EQ(join_files(), 0u);
  }
  EXPECT_LE(own_resources(), before);
}

TEST_F(SiteBootstrapTest, ByHandTheCommandIsShown) {
  start_timeout = std::chrono::milliseconds(300);
  const auto bootstrap = make("", BootstrapBy::kManual);
  EXPECT_THAT(start_all(*bootstrap, {"n1"})[0], HasSubstr("that somebody started it"));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(lines, HasSubstr("n1: start the agent there, as the same user: " + directory.path() +
                               "/agents/agent-fake-build-"));
}

TEST_F(SiteBootstrapTest, ACancelledWaveEndsWhatItStarted) {
  const OwnResources before = own_resources();
  {
    const auto bootstrap = make(MUSTER_TEST_PROGRAMS "/sleeper {host} {cmd}");
    bootstrap->cancel();
    EXPECT_EQ(start_all(*bootstrap, {"n1"})[0], "host n1: cancelled");
  }
  EXPECT_LE(own_resources(), before);
}

TEST_F(SiteBootstrapTest, RunsTheAgentThereToItsEnd) {
  const auto bootstrap = make("sh -c 'shift; exec \"$@\"' sh {host} {cmd}");
  const auto result = run_agent(*bootstrap, {.name = "n1"}, {"--sweep", "abcd2345"});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_status, 7);
  EXPECT_EQ(result->output, "swept abcd2345\n");
  EXPECT_EQ(run_agent(*bootstrap, {.name = "-n1"}, {"--sweep", "x"}).status().code(), base::Code::kInvalidArgument);
}

TEST_F(SiteBootstrapTest, TheAgentIsPutThereOnceAndAnotherFileIsReplaced) {
  auto image = AgentImage::open(fake_agent_path());
  ASSERT_TRUE(image.ok());
  const std::string folder = directory / "a/b";
  const auto path = place_agent(folder, "id", *image);
  ASSERT_TRUE(path.ok()) << path.status();
  struct stat first {};
  ASSERT_EQ(::stat(path->c_str(), &first), 0);
  EXPECT_EQ(first.st_mode & 07777, 0700u);
  ASSERT_TRUE(place_agent(folder, "id", *image).ok());
  struct stat again {};
  ASSERT_EQ(::stat(path->c_str(), &again), 0);
  EXPECT_EQ(again.st_ino, first.st_ino);
  write_file(*path, "spoilt");
  ASSERT_TRUE(place_agent(folder, "id", *image).ok());
  EXPECT_EQ(read_text(*path), read_text(fake_agent_path()));
}

}  // namespace
}  // namespace muster::launcherd::site_bootstrap_test
