// How the agent dials its launcher, and how its streams end. The launcher is a blocking peer, a listener that answers
// nothing, or one that refuses. A ControlServer is in launcherd/service/control_channel_test.cc.
#include "agent/link/control_client.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "base/tls.h"
#include "proto/control_key.h"
#include "proto/relay_frame.h"
#include "tests/unit/agent/link/silent_listener.h"
#include "tests/unit/support/control_peer.h"

namespace muster::agent::control_client_test {
namespace {

using proto::ControlKind;
using std::chrono::milliseconds;
using testing_support::ControlPeer;
using Clock = std::chrono::steady_clock;

class ControlClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    auto listener = base::listen_any(0, 16);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = std::move(*listener);
    deadline_ = loop_.after(std::chrono::seconds(40), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
  }
  ~ControlClientTest() override {
    ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept()
    if (launcher_.joinable()) launcher_.join();
  }

  static base::IpAddress here() { return *base::IpAddress::parse("127.0.0.1"); }
  static base::TlsKey key() { return proto::control_key("abcdefgh", "the agent's token"); }
  std::uint16_t port() const { return *base::local_port(listener_.get()); }

  std::unique_ptr<ControlClient> start_client() {
    ControlClientOptions options;
    options.route = route_;
    options.port = port();
    options.key = key();
    return ControlClient::start(loop_, std::move(options), v1::Hello());
  }

  base::UniqueFd accept(int flags = SOCK_NONBLOCK) const {
    return base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | flags));
  }

  // Plays the launcher: serves `streams` streams, one after the other, each up to its Welcome and then by `speak`.
  void play_launcher(int streams, std::function<void(ControlPeer&, int number)> speak) {
    ASSERT_TRUE(base::set_nonblocking(listener_.get(), false).ok());
    launcher_ = std::thread([this, streams, speak = std::move(speak)] {
      const base::TlsContext tls = *base::TlsContext::server({key()});
      for (int i = 0; i < streams; ++i) {
        ControlPeer peer(accept(0), tls);
        if (!peer.handshake()) return;
        const auto hello = peer.next_message<v1::AgentMessage>();
        EXPECT_TRUE(hello && hello->has_hello());
        v1::LauncherMessage welcome;
        welcome.mutable_welcome()->set_launcher_instance("one");
        EXPECT_TRUE(peer.send(welcome));
        speak(peer, i);
      }
    });
  }

  base::Loop loop_;
  base::Timer deadline_;
  base::UniqueFd listener_;
  std::shared_ptr<LauncherRoute> route_ = std::make_shared<LauncherRoute>(here());
  std::thread launcher_;
};

struct Attempt {
  base::UniqueFd fd;
  base::Timer readable{};
};

TEST_F(ControlClientTest, WaitsLongerForASilentMachineEachTime) {
  const testing_support::SilentListener silent(here());
  ControlClientOptions options;
  options.route = route_;
  options.port = silent.port();
  options.key = key();
  const auto client = ControlClient::start(loop_, std::move(options), v1::Hello());
  std::vector<Clock::time_point> times = {Clock::now()};
  client->on_cut = [&](const StreamEnd& end) {
    EXPECT_FALSE(end.is_by_launcher) << end.reason;
    times.push_back(Clock::now());
    if (times.size() == 4) loop_.stop();
  };
  loop_.run();
  ASSERT_EQ(times.size(), 4U);
  EXPECT_GT(times[1] - times[0], milliseconds(700));  // the limits are 1 s, 1.6 s and 2.56 s, plus or minus a fifth
  EXPECT_GT(times[3] - times[2], milliseconds(1'800));
}

// A busy launcher accepts, and answers the handshake late. What it has done for an attempt would be lost.
TEST_F(ControlClientTest, KeepsAnAttemptThatTheLauncherHasAccepted) {
  std::list<Attempt> attempts;
  const base::Timer accepting = loop_.on_readable(listener_.get(), [&] { attempts.push_back({accept()}); });
  const auto client = start_client();
  client->on_cut = [](const StreamEnd& end) { ADD_FAILURE() << end.reason; };
  const base::Timer enough = loop_.after(std::chrono::seconds(4), [this] { loop_.stop(); });
  loop_.run();
  EXPECT_EQ(attempts.size(), 1U);
}

// If each pause were longer than the one before, the twelfth attempt would come after minutes.
TEST_F(ControlClientTest, RepeatsARefusedAttemptSoon) {
  constexpr int kAttempts = 12;
  int attempts = 0;
  const base::Timer accepting = loop_.on_readable(listener_.get(), [&] {
    accept().reset();
    if (++attempts == kAttempts) loop_.stop();
  });
  const auto client = start_client();
  const Clock::time_point begun = Clock::now();
  loop_.run();
  EXPECT_EQ(attempts, kAttempts);
  EXPECT_GT(Clock::now() - begun, std::chrono::seconds(5)) << "the pauses grow up to a second";
}

TEST_F(ControlClientTest, ReportsThatNobodyListensAsTheLaunchersEnd) {
  const std::uint16_t free = port();
  ControlClientOptions options;
  options.route = route_;
  options.port = free;
  options.key = key();
  listener_.reset();
  const auto client = ControlClient::start(loop_, std::move(options), v1::Hello());
  StreamEnd end;
  client->on_cut = [&](const StreamEnd& one) {
    end = one;
    loop_.stop();
  };
  loop_.run();
  EXPECT_TRUE(end.is_by_launcher) << end.reason;
  EXPECT_NE(end.reason.find("Connection refused"), std::string::npos) << end.reason;
}

TEST_F(ControlClientTest, ReportsTheReasonOfAnEndAndComesBack) {
  play_launcher(2, [](ControlPeer& peer, int number) {
    if (number > 0) return;
    EXPECT_TRUE(peer.send_frame(ControlKind::kEnd, "cut by the test"));
    (void)peer.read_to_end();
  });
  const auto client = start_client();
  std::vector<std::string> reasons;
  int welcomes = 0;
  client->on_cut = [&](const StreamEnd& end) {
    EXPECT_TRUE(end.is_by_launcher) << end.reason;
    reasons.push_back(end.reason);
    if (reasons.size() == 2) loop_.stop();
  };
  client->on_message = [&](const v1::LauncherMessage& message) { welcomes += message.has_welcome() ? 1 : 0; };
  loop_.run();
  EXPECT_EQ(welcomes, 2);
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_EQ(reasons.front(), "cut by the test");
}

TEST_F(ControlClientTest, ReconnectsOnRequest) {
  play_launcher(2, [](ControlPeer& peer, int) { (void)peer.read_to_end(); });
  auto client = start_client();
  int welcomes = 0;
  std::vector<StreamEnd> ends;
  client->on_cut = [&](const StreamEnd& end) { ends.push_back(end); };
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_welcome()) return;
    if (++welcomes == 2) return loop_.stop();
    loop_.post([&] { client->reconnect("the test asks for it"); });
  };
  loop_.run();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends.front().reason, "the test asks for it");
  EXPECT_FALSE(ends.front().is_by_launcher);
  client.reset();
}

// A launcher with another key is not this agent's launcher.
TEST_F(ControlClientTest, RefusesALauncherWithoutItsKey) {
  ASSERT_TRUE(base::set_nonblocking(listener_.get(), false).ok());
  launcher_ = std::thread([this] {
    ControlPeer peer(accept(0), *base::TlsContext::server({{key().identity, std::string(64, '0')}}));
    EXPECT_FALSE(peer.handshake());
  });
  const auto client = start_client();
  client->on_hello = [](v1::Hello&) { ADD_FAILURE() << "it has told a stranger of its host"; };
  client->on_cut = [&](const StreamEnd&) { loop_.stop(); };
  loop_.run();
}

// A message that the agent cannot read is skipped, and the next ones are handled.
TEST_F(ControlClientTest, AnswersAnUnreadableMessageOnce) {
  std::vector<ControlKind> answers;
  play_launcher(1, [&](ControlPeer& peer, int) {
    EXPECT_TRUE(peer.send_frame(ControlKind::kMessage, "\xff\xff\xff"));
    v1::LauncherMessage after;
    after.set_sequence(1);
    after.mutable_stop_ranks()->set_reason("after");
    EXPECT_TRUE(peer.send(after));
    while (const auto frame = peer.next()) {
      answers.push_back(frame->kind);
      if (frame->kind == ControlKind::kMessage) return;  // the acknowledgement
    }
  });
  auto client = start_client();
  std::string reason;
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (message.has_stop_ranks()) reason = message.stop_ranks().reason();
  };
  client->on_cut = [&](const StreamEnd&) { loop_.stop(); };
  loop_.run();
  launcher_.join();
  EXPECT_EQ(reason, "after");
  EXPECT_EQ(answers, (std::vector<ControlKind>{ControlKind::kUnreadable, ControlKind::kMessage}));
}

TEST_F(ControlClientTest, EndsAStreamWithAFrameOfAnUnknownKind) {
  play_launcher(1, [](ControlPeer& peer, int) {
    EXPECT_TRUE(peer.send_frame(static_cast<ControlKind>(9), ""));
    (void)peer.read_to_end();
  });
  auto client = start_client();
  std::string reason;
  client->on_cut = [&](const StreamEnd& end) {
    reason = end.reason;
    loop_.stop();
  };
  loop_.run();
  EXPECT_NE(reason.find("malformed frame (kind 9"), std::string::npos) << reason;
}

// The first attempt goes to the relay. It has ended, so the next one goes to the launcher.
TEST_F(ControlClientTest, GoesDirectlyIfItsRelayIsGone) {
  auto relay = base::listen_any(0, 4);
  ASSERT_TRUE(relay.ok());
  route_->set_relay({here()}, *base::local_port(relay->get()));
  relay->reset();
  play_launcher(1, [](ControlPeer& peer, int) { (void)peer.read_to_end(); });
  auto client = start_client();
  std::vector<StreamEnd> ends;
  client->on_cut = [&](const StreamEnd& end) { ends.push_back(end); };
  client->on_message = [&](const v1::LauncherMessage&) { loop_.stop(); };
  loop_.run();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_FALSE(ends.front().is_by_launcher) << "the end of a relay is not that of the launcher";
  EXPECT_FALSE(client->relay().has_value());
  client.reset();
}

TEST_F(ControlClientTest, BeginsAtARelayWithItsHello) {
  route_->set_relay({here()}, port());
  ASSERT_TRUE(base::set_nonblocking(listener_.get(), false).ok());
  std::string hello(proto::kViaHelloSize, '\0');
  std::atomic<bool> is_read = false;
  launcher_ = std::thread([&] {
    base::UniqueFd fd = accept(0);
    if (::recv(fd.get(), hello.data(), hello.size(), MSG_WAITALL) != static_cast<ssize_t>(hello.size())) return;
    is_read = true;
    ControlPeer peer(std::move(fd), *base::TlsContext::server({key()}));
    EXPECT_TRUE(peer.handshake());
    v1::LauncherMessage welcome;
    welcome.mutable_welcome();
    EXPECT_TRUE(peer.send(welcome));
    (void)peer.read_to_end();
  });
  auto client = start_client();
  client->on_message = [&](const v1::LauncherMessage&) { loop_.stop(); };
  loop_.run();
  EXPECT_TRUE(is_read);
  EXPECT_EQ(hello, proto::via_hello(proto::ViaService::kControl));
  ASSERT_TRUE(client->relay().has_value());
  EXPECT_EQ(client->relay()->port, port());
  client.reset();
}

}  // namespace
}  // namespace muster::agent::control_client_test
