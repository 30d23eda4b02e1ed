#include "agent/link/launcher_route.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/agent/link/silent_listener.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::agent::launcher_route_test {
namespace {

using proto::ViaService;
using testing_support::read_bytes;
using namespace std::chrono_literals;

base::IpAddress here() {
  return *base::IpAddress::parse("127.0.0.1");
}
base::IpAddress other(const char* text) {
  return *base::IpAddress::parse(text);
}

struct Listener {
  base::UniqueFd fd = *base::listen_any(0, 16);
  std::uint16_t port = *base::local_port(fd.get());
  base::UniqueFd accept() const { return testing_support::accept_here(fd.get()); }
};

TEST(LauncherRoute, WithoutARelayGoesDirectly) {
  const LauncherRoute route(here());
  for (const int failures : {0, 1, 7}) {
    const LauncherRoute::Way way = route.way(7000, failures);
    EXPECT_FALSE(way.is_relay);
    EXPECT_EQ(way.port, 7000);
  }
}

TEST(LauncherRoute, TriesEachAddressOfTheRelayAndThenTheLauncher) {
  LauncherRoute route(here());
  route.set_relay({other("10.0.0.1"), other("10.0.1.1")}, 7100);
  const auto name = [&](int failures) {
    const LauncherRoute::Way way = route.way(7000, failures);
    EXPECT_EQ(way.is_relay, way.port == 7100);
    return way.address.str();
  };
  EXPECT_EQ(name(0), "10.0.0.1");
  EXPECT_EQ(name(1), "10.0.1.1");
  EXPECT_EQ(name(2), "127.0.0.1");
  EXPECT_EQ(name(3), "10.0.0.1");
  route.set_relay({}, 0);
  EXPECT_EQ(name(0), "127.0.0.1");
  EXPECT_EQ(name(1), "127.0.0.1");
}

TEST(LauncherRoute, PrefersTheWayThatWorkedLast) {
  LauncherRoute route(here());
  route.set_relay({other("10.0.0.1"), other("10.0.1.1")}, 7100);
  route.succeeded(route.way(7000, 1));
  EXPECT_EQ(route.way(7000, 0).address.str(), "10.0.1.1");
  EXPECT_EQ(route.way(7000, 1).address.str(), "10.0.0.1");
  route.succeeded(route.way(7000, 2));
  EXPECT_FALSE(route.way(7000, 0).is_relay);
  EXPECT_TRUE(route.way(7000, 1).is_relay) << "the relay is the next to try";
  route.succeeded(route.way(7000, 1));
  route.leave_relay();
  EXPECT_FALSE(route.way(7000, 0).is_relay);
}

TEST(LauncherRoute, ConnectsThroughTheRelayWithItsHello) {
  const Listener relay;
  const Listener launcher;
  LauncherRoute route(here());
  route.set_relay({here()}, relay.port);
  const auto fd = route.connect_blocking(ViaService::kOutput, launcher.port, base::monotonic_now() + 10s, -1);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const base::UniqueFd at_relay = relay.accept();
  EXPECT_EQ(read_bytes(at_relay.get(), proto::kViaHelloSize), proto::via_hello(ViaService::kOutput));
  route.leave_relay();
  EXPECT_TRUE(testing_support::ends(fd->get())) << "the connection through the relay is over";
  const auto direct = route.connect_blocking(ViaService::kOutput, launcher.port, base::monotonic_now() + 10s, -1);
  ASSERT_TRUE(direct.ok()) << direct.status();
  const base::UniqueFd at_launcher = launcher.accept();
  EXPECT_FALSE(testing_support::is_readable(at_launcher.get())) << "the launcher gets no hello";
  route.leave_relay();
  EXPECT_FALSE(testing_support::is_readable(direct->get()));
}

TEST(LauncherRoute, ConnectsDirectlyIfTheRelayIsGoneOrSilent) {
  const Listener launcher;
  LauncherRoute route(here());
  {
    const Listener gone;
    route.set_relay({here()}, gone.port);
  }
  EXPECT_TRUE(route.connect_blocking(ViaService::kOutput, launcher.port, base::monotonic_now() + 10s, -1).ok());
  const testing_support::SilentListener silent(here());
  route.set_relay({here()}, silent.port());
  const base::MonotonicTime begun = base::monotonic_now();
  EXPECT_TRUE(route.connect_blocking(ViaService::kOutput, launcher.port, begun + 20s, -1).ok());
  EXPECT_LT(base::monotonic_now() - begun, 5s);
}

TEST(LauncherRoute, ReportsTheLastFailureAndACancel) {
  LauncherRoute route(here());
  std::uint16_t free = 0;
  {
    const Listener gone;
    free = gone.port;
  }
  const auto failed = route.connect_blocking(ViaService::kOutput, free, base::monotonic_now() + 10s, -1);
  EXPECT_NE(failed.status().message().find("127.0.0.1"), std::string::npos) << failed.status();
  const testing_support::SilentListener silent(here());
  route.set_relay({here()}, silent.port());
  const base::UniqueFd cancel(::eventfd(1, EFD_CLOEXEC));
  const auto cancelled =
      route.connect_blocking(ViaService::kOutput, silent.port(), base::monotonic_now() + 10s, cancel.get());
  EXPECT_EQ(cancelled.status().code(), base::Code::kCancelled);
}

}  // namespace
}  // namespace muster::agent::launcher_route_test
