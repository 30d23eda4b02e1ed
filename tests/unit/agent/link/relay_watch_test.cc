// An agent that watches its relay: a real one, one that is stopped, and one that is gone.
#include "agent/link/relay_watch.h"

#include <sys/socket.h>

#include <memory>

#include <gtest/gtest.h>

#include "agent/relay/relay_server.h"
#include "base/net.h"
#include "tests/unit/support/relay_peer.h"
#include "tests/unit/support/turn_until.h"

namespace muster::agent::relay_watch_test {
namespace {

using testing_support::turn_until;
using namespace std::chrono_literals;

class RelayWatchTest : public ::testing::Test {
 protected:
  static LauncherRoute::Way way(int port) {
    return {
        .address = *base::IpAddress::parse("127.0.0.1"), .port = static_cast<std::uint16_t>(port), .is_relay = true};
  }
  void turn_for(base::Duration time) {
    const base::MonotonicTime begun = base::monotonic_now();
    turn_until(loop_, [&] { return base::monotonic_now() - begun > time; });
  }

  base::Loop loop_;
  int silences_ = 0;
  RelayWatch watch_{loop_, [this] { ++silences_; }, {.period = 50ms, .patience = 300ms}};
};

TEST_F(RelayWatchTest, LivingRelayIsNotSilent) {
  auto relay = RelayServer::start({.launcher = *base::IpAddress::parse("127.0.0.1")});
  ASSERT_TRUE(relay.ok()) << relay.status();
  watch_.begin(way((*relay)->port()));
  turn_for(1'500ms);
  EXPECT_EQ(silences_, 0);
  EXPECT_EQ((*relay)->children(), 1U);
  watch_.end();
  turn_for(100ms);
  EXPECT_EQ((*relay)->children(), 0U);
  EXPECT_EQ(silences_, 0);
}

// The kernel accepts connections to a stopped process, and takes their bytes.
TEST_F(RelayWatchTest, NoticesAStoppedRelayOnce) {
  const base::UniqueFd stopped = *base::listen_any(0, 16);
  const base::MonotonicTime begun = base::monotonic_now();
  watch_.begin(way(*base::local_port(stopped.get())));
  turn_until(loop_, [this] { return silences_ > 0; });
  EXPECT_GT(base::monotonic_now() - begun, 250ms);
  turn_for(600ms);
  EXPECT_EQ(silences_, 1);
}

TEST_F(RelayWatchTest, NoticesARelayThatStopsLater) {
  const base::UniqueFd listening = *base::listen_any(0, 16);
  watch_.begin(way(*base::local_port(listening.get())));
  const base::UniqueFd relay = testing_support::accept_here(listening.get());
  ASSERT_TRUE(base::set_nonblocking(relay.get(), true).ok());
  int echoes = 0;
  const base::Timer echoing = loop_.every(20ms, [&] {
    char byte = 0;
    if (echoes < 20 && ::recv(relay.get(), &byte, 1, 0) == 1)
      echoes += ::send(relay.get(), &byte, 1, MSG_NOSIGNAL) == 1;
  });
  turn_until(loop_, [this] { return silences_ > 0; });
  EXPECT_EQ(echoes, 20);
}

TEST_F(RelayWatchTest, NoticesARelayThatIsGone) {
  auto relay = RelayServer::start({.launcher = *base::IpAddress::parse("127.0.0.1")});
  ASSERT_TRUE(relay.ok()) << relay.status();
  watch_.begin(way((*relay)->port()));
  turn_for(200ms);
  relay->reset();
  turn_until(loop_, [this] { return silences_ > 0; });
}

// The relay has too many children, or is restarted on the same port: one cut is no silence.
TEST_F(RelayWatchTest, ConnectsAgainAfterACut) {
  const base::UniqueFd listening = *base::listen_any(0, 16);
  watch_.begin(way(*base::local_port(listening.get())));
  int accepted = 0;
  base::UniqueFd connection;
  ASSERT_TRUE(base::set_nonblocking(listening.get(), true).ok());
  const base::Timer relay = loop_.every(10ms, [&] {
    base::UniqueFd next(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (next.valid()) {
      ++accepted;
      connection = std::move(next);
    }
    char bytes[16];
    const ssize_t n = ::recv(connection.get(), bytes, sizeof bytes, 0);
    if (n > 0) {
      EXPECT_EQ(::send(connection.get(), bytes, 1, MSG_NOSIGNAL), 1);
    }
    if (n > 0 && accepted < 5) connection.reset();
  });
  turn_for(1'200ms);
  EXPECT_EQ(accepted, 5);
  EXPECT_EQ(silences_, 0);
}

TEST_F(RelayWatchTest, MayEndAndBeginInItsCallback) {
  const base::UniqueFd stopped = *base::listen_any(0, 16);
  const std::uint16_t port = *base::local_port(stopped.get());
  int calls = 0;
  std::unique_ptr<RelayWatch> watch;
  watch = std::make_unique<RelayWatch>(
      loop_,
      [&] {
        ++calls;
        watch->end();
        watch->begin(way(port));
      },
      RelayWatch::Options{.period = 20ms, .patience = 100ms});
  watch->begin(way(port));
  turn_until(loop_, [&] { return calls == 3; });
}

}  // namespace
}  // namespace muster::agent::relay_watch_test
