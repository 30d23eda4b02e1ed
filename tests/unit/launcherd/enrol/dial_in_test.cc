// Tests agents that connect to a launcherd by themselves: real TLS connections on loopback, with launcherd's join file.
#include "launcherd/enrol/dial_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <future>

#include "base/file.h"
#include "base/tls.h"
#include "proto/enrolment.h"
#include "proto/join_file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::dial_in_test {
namespace {

using ::testing::HasSubstr;

const std::string kBuild = "0123abcd";

base::MonotonicTime soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

// Records events in their order, one word a line. Any thread may use it.
class Events {
 public:
  void add(const std::string& event) {
    const std::lock_guard lock(mutex_);
    text_ += event + "\n";
    changed_.notify_all();
  }
  void wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_until(lock, soon(), [&] { return text_.find(part) != std::string::npos; }))
        << part << " is not in: " << text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

class DialInTest : public ::testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }
  void open() {
    DialInOptions options;
    options.at.address = *base::IpAddress::parse("127.0.0.1");
    options.at.join_file = directory / "join";
    options.build_id = kBuild;
    options.on_refused = [this](const std::string& line) { events.add("refused: " + line); };
    options.on_join = [this](const std::string& host, int slots) {
      events.add(fmt::format("come: {} {}", host, slots));
    };
    options.on_gone = [this](const std::string& host) { events.add("gone: " + host); };
    auto opened = DialIn::open(clock, std::move(options));
    ASSERT_TRUE(opened.ok()) << opened.status();
    dial_in = *opened;
    BootstrapOptions bootstrap_options;
    bootstrap_options.agent_id = kBuild;
    bootstrap_options.dial_in = dial_in;
    bootstrap_options.start_timeout = std::chrono::seconds(20);
    bootstrap = make_dial_in_bootstrap(bootstrap_options);
  }

  proto::JoinFile join_file() const {
    const auto text = base::read_file(directory / "join");
    auto file = proto::parse_join_file(text.ok() ? *text : "");
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *file : proto::JoinFile();
  }

  // Returns the connection of an agent after its reply. `is_taken` is the expected reply.
  base::TlsStream connect_agent(const std::string& host, int slots, bool is_taken = true) const {
    const proto::JoinFile file = join_file();
    auto context = base::TlsContext::client({file.identity, file.token});
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const base::SockAddr to = base::make_sockaddr(file.addresses.front(), file.port);
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    base::TlsStream stream(*context, std::move(fd));
    EXPECT_TRUE(stream.handshake_blocking(soon(), -1).ok());
    const std::string hello = proto::encode_hello({kBuild, {host}, slots, "a1"});
    EXPECT_TRUE(stream.write_all_blocking(hello.data(), hello.size(), soon(), -1).ok());
    std::string header(proto::kEnrolmentHeader, '\0');
    EXPECT_TRUE(stream.read_exactly_blocking(header.data(), header.size(), soon(), -1).ok());
    std::string text(proto::enrolment_size(header).value(), '\0');
    EXPECT_TRUE(stream.read_exactly_blocking(text.data(), text.size(), soon(), -1).ok());
    EXPECT_EQ(proto::decode_answer(text)->is_taken, is_taken) << text;
    return stream;
  }

  std::future<base::Result<StartedAgent>> start(const std::string& host) {
    auto promise = std::make_shared<std::promise<base::Result<StartedAgent>>>();
    bootstrap->start({.name = host}, ready_join(std::string("the join frame")),
                     [promise](base::Result<StartedAgent> started) { promise->set_value(std::move(started)); });
    return promise->get_future();
  }

  const base::SystemClock clock{};
  testing_support::TempDir directory;
  Events events;
  std::shared_ptr<DialIn> dial_in;
  std::unique_ptr<Bootstrap> bootstrap;
};

// A user who wrote the file knows the token, and could add his own host.
TEST_F(DialInTest, AJoinFileThatOthersCouldHaveWrittenIsRefused) {
  open();
  const std::string path = directory / "join";
  const auto opened_again = [&] {
    DialInOptions options;
    options.at.address = *base::IpAddress::parse("127.0.0.1");
    options.at.join_file = path;
    options.build_id = kBuild;
    return DialIn::open(clock, std::move(options)).status();
  };
  bootstrap.reset();
  dial_in.reset();
  EXPECT_EQ(opened_again().message(), "") << "its own one";
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  EXPECT_EQ(opened_again().code(), base::Code::kPermissionDenied);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  ASSERT_EQ(::rename(path.c_str(), (directory / "elsewhere").c_str()), 0);
  ASSERT_EQ(::symlink("elsewhere", path.c_str()), 0);
  EXPECT_EQ(opened_again().code(), base::Code::kPermissionDenied);
  ASSERT_EQ(::rename((directory / "elsewhere").c_str(), path.c_str()), 0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  EXPECT_THAT(opened_again().message(), HasSubstr("every user may write into"));
  ASSERT_EQ(::chmod(directory.path().c_str(), 01777), 0);
  EXPECT_EQ(opened_again().message(), "") << "sticky";
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path.c_str(), 4242, 4242), 0);
  EXPECT_THAT(opened_again().message(), HasSubstr("belongs to uid 4242"));
}

TEST_F(DialInTest, AnAgentThatHasComeIsStartedByItsJoin) {
  open();
  EXPECT_FALSE(dial_in->agents().is_known("n7"));
  base::TlsStream agent = connect_agent("n7", 4);
  events.wait_for("come: n7 4");
  EXPECT_TRUE(dial_in->agents().is_waiting("n7"));
  const std::string marker = fmt::format("{}{}\n", kAgentMarker, kBuild);
  ASSERT_TRUE(agent.write_all_blocking(marker.data(), marker.size(), soon(), -1).ok());
  auto started = start("n7").get();
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->host_address->str(), "127.0.0.1");
  std::string join(14, '\0');
  ASSERT_TRUE(agent.read_exactly_blocking(join.data(), join.size(), soon(), -1).ok());
  EXPECT_EQ(join, "the join frame");
  EXPECT_FALSE(dial_in->agents().is_waiting("n7")) << "it is somebody's";
}

TEST_F(DialInTest, AStartWaitsForAnAgentThatComesAgain) {
  open();
  { const base::TlsStream first = connect_agent("n7", 4); }
  events.wait_for("gone: n7");
  EXPECT_TRUE(dial_in->agents().is_known("n7"));
  auto started = start("n7");
  base::TlsStream again = connect_agent("n7", 4);
  const std::string marker = fmt::format("{}{}\n", kAgentMarker, kBuild);
  ASSERT_TRUE(again.write_all_blocking(marker.data(), marker.size(), soon(), -1).ok());
  EXPECT_TRUE(started.get().ok());
}

TEST_F(DialInTest, AStartThatIsCancelledEnds) {
  open();
  dial_in->agents().add_known("n7");
  auto started = start("n7");
  bootstrap->cancel();
  EXPECT_EQ(started.get().status().code(), base::Code::kCancelled);
}

TEST_F(DialInTest, WhatEnrolsAndIsNoAgentIsNotStarted) {
  open();
  { const base::TlsStream silent = connect_agent("n7", 1); }
  // A caller may take the stream before the server notices that the agent has ended.
  base::TlsStream other = connect_agent("n8", 1);
  const std::string marker = fmt::format("{}ffff\n", kAgentMarker);
  ASSERT_TRUE(other.write_all_blocking(marker.data(), marker.size(), soon(), -1).ok());
  const auto started = start("n8").get();
  EXPECT_THAT(started.status().message(),
              HasSubstr("host n8: the program that enrolled as n8 is not an agent of this build"));
}

TEST_F(DialInTest, NothingElseIsRunThere) {
  open();
  std::promise<base::Status> result_status;
  bootstrap->run({.name = "n7"}, {"--sweep", "abcdefgh"},
                 [&](base::Result<CommandResult> result) { result_status.set_value(result.status()); });
  EXPECT_EQ(result_status.get_future().get().code(), base::Code::kUnimplemented);
}

TEST_F(DialInTest, TheKeyStaysForTheNextLauncherd) {
  open();
  const proto::JoinFile before = join_file();
  EXPECT_TRUE(before.stays);
  struct stat info {};
  ASSERT_EQ(::stat((directory / "join").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  bootstrap.reset();
  dial_in.reset();
  open();
  EXPECT_EQ(join_file().token, before.token);
  EXPECT_EQ(join_file().identity, before.identity);
  const base::TlsStream agent = connect_agent("n7", 2);
  events.wait_for("come: n7 2");
}

TEST_F(DialInTest, AFileThatIsNoJoinFileIsKept) {
  ASSERT_TRUE(base::write_file_atomically(directory / "join", "mine\n", 0600).ok());
  DialInOptions options;
  options.at.join_file = directory / "join";
  const auto opened = DialIn::open(clock, std::move(options));
  EXPECT_EQ(opened.status().code(), base::Code::kDataLoss);
  EXPECT_EQ(*base::read_file(directory / "join"), "mine\n");
}

TEST(DialledAgents, AnotherProgramDoesNotTakeAHostsPlace) {
  std::string gone;
  DialledAgents agents([&gone](const std::string& host) { gone += host + " "; });
  const EnrolmentSeats::Ends ends{*base::IpAddress::parse("10.0.0.7"), {}};
  auto first = agents.assign({kBuild, {"n7"}, 2, "a1"}, ends);
  ASSERT_TRUE(first.ok());
  const auto other = agents.assign({kBuild, {"n7"}, 2, "b2"}, ends);
  EXPECT_THAT(other.status().message(), HasSubstr("refused a second agent of host n7 from 10.0.0.7"));
  // The same agent connects again, because its old connection was cut without notice.
  const auto second = agents.assign({kBuild, {"n7"}, 3, "a1"}, ends);
  ASSERT_TRUE(second.ok());
  char byte = 0;
  EXPECT_EQ(::read(first->stream.get(), &byte, 1), 0) << "the old one has ended";
  agents.left(first->seat);
  EXPECT_EQ(gone, "");
  EXPECT_EQ(agents.slots("n7"), 3);
  agents.forget("n7");
  EXPECT_TRUE(agents.is_known("n7")) << "it is here";
  agents.left(second->seat);
  EXPECT_EQ(gone, "n7 ");
  agents.forget("n7");
  EXPECT_FALSE(agents.is_known("n7"));
}

}  // namespace
}  // namespace muster::launcherd::dial_in_test
