#include "agent/job/session_socket.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/ids.h"
#include "base/net.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/session_stream.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::agent::session_socket_test {
namespace {

using namespace muster::rendezvous;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

base::UniqueFd connect_to(const std::string& path) {
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = base::unix_address(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) fd.reset();
  return fd;
}

// A rank that keeps what it receives.
class FakeRank {
 public:
  FakeRank(base::Loop& loop, const std::string& path) : stream_(connect_to(path), 64 << 20) {
    readable_ = loop.on_readable(stream_.fd(), [this] {
      const auto read = stream_.read([this](SessionMessage message) {
        got.push_back(std::move(message));
        return base::ok_status();
      });
      if (read.ok() && *read) return;
      is_closed = true;
      readable_.cancel();
    });
  }
  FakeRank(const FakeRank&) = delete;
  FakeRank& operator=(const FakeRank&) = delete;

  void send(const SessionMessage& message) { EXPECT_TRUE(stream_.send(message).ok()); }
  template <typename T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const SessionMessage& message : got) {
      if (const auto* const one = std::get_if<T>(&message)) found.push_back(*one);
    }
    return found;
  }
  void stop_reading() { readable_.cancel(); }

  std::vector<SessionMessage> got;
  bool is_closed = false;

 private:
  SessionStream stream_;
  base::Timer readable_;
};

class SessionSocketTest : public ::testing::Test {
 protected:
  SessionSocketTest() : directory_(std::filesystem::temp_directory_path() / ("muster-socket-" + base::random_hex(6))) {
    std::filesystem::create_directory(directory_);
    ::chmod(directory_.c_str(), 0700);
  }
  ~SessionSocketTest() override {
    socket_.reset();
    std::filesystem::remove_all(directory_);
  }

  void open(SessionSocketLimits limits = {}) {
    SessionSocket::Events events;
    events.on_first_hello = [this] { ++first_hellos_; };
    events.on_problem = [this](const base::Status& problem) { problems_.push_back(problem.message()); };
    socket_.emplace(loop_, std::move(events), limits);
    const base::Status opened = socket_->open(directory_.string(), std::string(32, 's'), {2, 3}, keys_);
    ASSERT_TRUE(opened.ok()) << opened;
  }
  std::string path() const { return (directory_ / "agent.sock").string(); }
  std::unique_ptr<FakeRank> rank(int number, std::uint32_t version = 1) {
    auto rank = std::make_unique<FakeRank>(loop_, path());
    rank->send(SessionHello{version, number});
    return rank;
  }
  bool run_until(const std::function<bool()>& holds) { return rendezvous::run_until(loop_, holds); }

  base::Loop loop_;
  const std::filesystem::path directory_;
  HorovodStore store_{{}, {.max_keys = 100}};
  HorovodStoreKeys keys_{store_};
  std::optional<SessionSocket> socket_;
  int first_hellos_ = 0;
  std::vector<std::string> problems_;
};

TEST_F(SessionSocketTest, WelcomesRanksOfThisHostAndCountsTheirWorlds) {
  open();
  struct stat about {};
  ASSERT_EQ(::stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 07777, 0600U);
  const auto two = rank(2);
  const auto again = rank(2);
  const auto three = rank(3);
  const auto other = rank(0);
  ASSERT_TRUE(
      run_until([&] { return !two->got.empty() && !again->got.empty() && !three->got.empty() && other->is_closed; }));
  EXPECT_TRUE(two->got[0] == SessionMessage(SessionWelcome{1, std::string(32, 's'), 0}));
  EXPECT_TRUE(again->got[0] == SessionMessage(SessionWelcome{1, std::string(32, 's'), 1}));
  EXPECT_TRUE(three->got[0] == SessionMessage(SessionWelcome{1, std::string(32, 's'), 0}));
  EXPECT_THAT(other->got, IsEmpty());
  EXPECT_EQ(first_hellos_, 1);
  EXPECT_THAT(problems_, ElementsAre("session of rank 0: it is not a rank of this host"));
}

TEST_F(SessionSocketTest, KeysAreThoseOfTheJob) {
  open();
  const auto two = rank(2);
  const auto three = rank(3);
  two->send(SessionWait{1, "key"});
  two->send(SessionWait{2, "key"});
  two->send(SessionWait{3, "far"});
  two->send(SessionCancel{2});
  two->send(SessionPut{4, "mine", "m"});
  ASSERT_TRUE(run_until([&] { return !two->all<SessionPutDone>().empty(); }));
  EXPECT_EQ(*store_.get("muster", "mine"), "m");
  three->send(SessionPut{1, "key", "value"});
  ASSERT_TRUE(store_.put("muster", "far", make_horovod_value("from another host")).ok());
  ASSERT_TRUE(run_until([&] { return two->all<SessionValue>().size() == 2 && !three->all<SessionPutDone>().empty(); }));
  const auto values = two->all<SessionValue>();
  EXPECT_TRUE(values[0] == (SessionValue{3, base::Code::kOk, "from another host"}));
  EXPECT_TRUE(values[1] == (SessionValue{1, base::Code::kOk, "value"}));
  EXPECT_TRUE(three->all<SessionPutDone>()[0] == (SessionPutDone{1, base::Code::kOk, ""}));
}

TEST_F(SessionSocketTest, NamesTheKeyAwaitedLongest) {
  open();
  const auto two = rank(2);
  EXPECT_FALSE(socket_->awaited(2).has_value());
  const auto before = base::monotonic_now();
  two->send(SessionWait{9, "0/abort/world"});  // libmuster watches it all the time
  two->send(SessionWait{1, "first\n"});
  two->send(SessionWait{2, "second"});
  ASSERT_TRUE(run_until([&] { return socket_->awaited(2).has_value(); }));
  EXPECT_EQ(socket_->awaited(2)->what, "the key \"first\\x0a\" in the store");
  EXPECT_GE(socket_->awaited(2)->since, before);
  EXPECT_FALSE(socket_->awaited(3).has_value());
  two->send(SessionCancel{1});
  ASSERT_TRUE(run_until([&] { return socket_->awaited(2)->what == "the key \"second\" in the store"; }));
  ASSERT_TRUE(store_.put("muster", "second", make_horovod_value("x")).ok());
  EXPECT_FALSE(socket_->awaited(2).has_value());
}

TEST_F(SessionSocketTest, AFullStoreIsTold) {
  open();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(store_.put("muster", std::to_string(i), make_horovod_value("")).ok());
  }
  const auto two = rank(2);
  two->send(SessionPut{1, "key", "value"});
  ASSERT_TRUE(run_until([&] { return !two->all<SessionPutDone>().empty(); }));
  EXPECT_EQ(two->all<SessionPutDone>()[0].code, base::Code::kResourceExhausted);
}

TEST_F(SessionSocketTest, NewsGoesToAllOthersOnceAndToThoseWhoComeLater) {
  open();
  socket_->rank_ended({0, true, "exited with 1"});
  const auto two = rank(2);
  const auto three = rank(3);
  ASSERT_TRUE(run_until([&] { return !two->all<SessionEnded>().empty() && !three->all<SessionEnded>().empty(); }));
  socket_->rank_ended({2, true, "was killed by signal 9 (SIGKILL)"});
  socket_->rank_ended({2, false, "exited with 0"});
  socket_->rank_ended({1, false, "exited with 0"});
  ASSERT_TRUE(
      run_until([&] { return two->all<SessionEnded>().size() == 2 && three->all<SessionEnded>().size() == 3; }));
  EXPECT_TRUE(three->all<SessionEnded>()[1] == (SessionEnded{2, true, "was killed by signal 9 (SIGKILL)"}));
  EXPECT_EQ(two->all<SessionEnded>()[1].rank, 1);
}

TEST_F(SessionSocketTest, TellsWhichRanksHaveFallenSilentAndWhichAnswerAgain) {
  open();
  socket_->set_silent({0, 1});
  const auto two = rank(2, kSessionSilenceVersion);
  ASSERT_TRUE(run_until([&] { return two->all<SessionSilence>().size() == 2; }));
  const auto three = rank(3, kSessionSilenceVersion + 1);
  ASSERT_TRUE(run_until([&] { return three->all<SessionSilence>().size() == 2; }));
  EXPECT_EQ(std::get<SessionWelcome>(three->got[0]).version, kSessionVersion);
  socket_->set_silent({0, 1});
  socket_->set_silent({1, 4});
  socket_->set_silent({});
  const std::vector<SessionSilence> expected{{0, true}, {1, true}, {4, true}, {0, false}, {1, false}, {4, false}};
  ASSERT_TRUE(run_until([&] { return two->all<SessionSilence>().size() >= expected.size(); }));
  EXPECT_TRUE(two->all<SessionSilence>() == expected);
}

TEST_F(SessionSocketTest, TellsNothingOfSilenceToARankOfAnOlderRelease) {
  open();
  socket_->set_silent({0});
  const auto two = rank(2, 1);
  ASSERT_TRUE(run_until([&] { return !two->got.empty(); }));
  socket_->set_silent({1});
  socket_->rank_ended({1, true, "exited with 1"});
  ASSERT_TRUE(run_until([&] { return !two->all<SessionEnded>().empty(); }));
  EXPECT_TRUE(two->all<SessionSilence>().empty());
}

TEST_F(SessionSocketTest, ARankThatGoesLeavesNothingBehind) {
  open();
  auto two = rank(2);
  for (std::uint64_t id = 1; id <= 100; ++id) two->send(SessionWait{id, "never"});
  ASSERT_TRUE(run_until([&] { return !two->got.empty(); }));
  EXPECT_EQ(socket_->connections(), 1U);
  two.reset();
  EXPECT_TRUE(run_until([&] { return socket_->connections() == 0; }));
  ASSERT_TRUE(store_.put("muster", "never", make_horovod_value("x")).ok());
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(SessionSocketTest, WhoBreaksTheProtocolIsClosed) {
  open();
  const auto mute = std::make_unique<FakeRank>(loop_, path());
  mute->send(SessionWait{1, "key"});
  const auto twice = rank(2);
  twice->send(SessionHello{1, 2});
  const auto host = rank(2);
  host->send(SessionEnded{1, true, ""});
  const auto same_id = rank(3);
  same_id->send(SessionWait{1, "a"});
  same_id->send(SessionWait{1, "b"});
  const auto after = rank(3);
  after->send(SessionGoodbye{});
  after->send(SessionWait{1, "b"});
  EXPECT_TRUE(run_until([&] {
    return mute->is_closed && twice->is_closed && host->is_closed && same_id->is_closed && after->is_closed;
  }));
  EXPECT_EQ(problems_.size(), 5U);
}

TEST_F(SessionSocketTest, ConnectionsAndWaitsAreBounded) {
  open({.max_connections_of_rank = 2, .max_strangers = 2, .max_waits_of_connection = 1});
  const auto first = rank(2);
  const auto second = rank(2);
  ASSERT_TRUE(run_until([&] { return !first->got.empty() && !second->got.empty(); }));
  const auto third = rank(2);
  EXPECT_TRUE(run_until([&] { return third->is_closed; }));
  first->send(SessionWait{1, "a"});
  first->send(SessionWait{2, "b"});
  ASSERT_TRUE(run_until([&] { return !first->all<SessionValue>().empty(); }));
  EXPECT_EQ(first->all<SessionValue>()[0].id, 2U);
  EXPECT_EQ(first->all<SessionValue>()[0].code, base::Code::kResourceExhausted);
  const FakeRank oldest(loop_, path());
  const FakeRank stranger(loop_, path());
  const FakeRank newest(loop_, path());
  EXPECT_TRUE(run_until([&] { return oldest.is_closed; }));
  EXPECT_FALSE(first->is_closed || stranger.is_closed || newest.is_closed);
}

TEST_F(SessionSocketTest, WhoDoesNotReadIsClosedAndHoldsUpNobody) {
  open({.max_queued_bytes = 1 << 20});
  const auto two = rank(2);
  const auto three = rank(3);
  for (std::uint64_t id = 1; id <= 16; ++id) two->send(SessionWait{id, "large"});
  ASSERT_TRUE(run_until([&] { return socket_->connections() == 2 && !two->got.empty() && !three->got.empty(); }));
  two->stop_reading();
  three->send(SessionPut{1, "large", std::string(100'000, 'x')});
  EXPECT_TRUE(run_until([&] { return socket_->connections() == 1; }));
  three->send(SessionWait{2, "large"});
  ASSERT_TRUE(run_until([&] { return !three->all<SessionValue>().empty(); }));
  EXPECT_EQ(three->all<SessionValue>()[0].bytes.size(), 100'000U);
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("the other end does not read")));
}

TEST_F(SessionSocketTest, ProcessesOfAnotherUserAreNotServed) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to be another user";
  open();
  // The directory and the socket let every user in. They never should.
  ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
  ASSERT_EQ(::chmod(path().c_str(), 0777), 0);
  const auto hello = encode_session(SessionHello{1, 2});
  const auto address = base::unix_address(path());
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    char byte = 0;
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) ::_exit(3);
    if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) ::_exit(0);  // closed already
    ::_exit(::recv(fd, &byte, 1, 0) <= 0 ? 0 : 4);                             // no byte arrives
  }
  ASSERT_TRUE(run_until([&] { return !problems_.empty(); }));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("of uid 65534")));
  EXPECT_EQ(first_hellos_, 0);
}

TEST_F(SessionSocketTest, SaysWhyItCannotBeOpened) {
  SessionSocket socket(loop_, {[] {}, [](const base::Status&) {}});
  EXPECT_EQ(socket.open(directory_.string(), "short", {0}, keys_).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(socket.open((directory_ / "missing").string(), std::string(32, 's'), {0}, keys_).code(),
            base::Code::kNotFound);
  socket.rank_ended({0, true, "exited with 1"});  // no rank is connected
}

}  // namespace
}  // namespace muster::agent::session_socket_test
