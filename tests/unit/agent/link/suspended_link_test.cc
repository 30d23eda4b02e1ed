#include "agent/link/suspended_link.h"

#include <optional>

#include <gtest/gtest.h>

#include "tests/unit/agent/link/silent_listener.h"

namespace muster::agent::suspended_link_test {
namespace {

using namespace std::chrono_literals;

struct SuspendedLinkTest : ::testing::Test {
  static base::IpAddress here() { return *base::IpAddress::parse("127.0.0.1"); }

  // Returns what the link reported within `bound`.
  std::optional<std::string> lost_within(SuspendedLink& link, base::Duration bound) {
    lost.reset();
    link.begin();
    const base::Timer deadline = loop.after(bound, [this] { loop.stop(); });
    loop.run();
    link.end();
    return lost;
  }
  SuspendedLink link_to(std::uint16_t port) {
    return {loop, here(), port, 3s, [this](const std::string& why) {
              lost = why;
              loop.stop();
            }};
  }

  base::Loop loop;
  std::optional<std::string> lost;
};

// The kernel of a stopped launcher accepts the connection and answers the probes, for longer than the lease.
TEST_F(SuspendedLinkTest, IsThereWhileNobodyAccepts) {
  auto listening = base::listen_on(here(), 0, 8);
  ASSERT_TRUE(listening.ok());
  SuspendedLink link = link_to(*base::local_port(listening->get()));
  EXPECT_EQ(lost_within(link, 5s), std::nullopt);
}

TEST_F(SuspendedLinkTest, IsLostWhenTheLauncherHasEnded) {
  auto listening = base::listen_on(here(), 0, 8);
  ASSERT_TRUE(listening.ok());
  SuspendedLink link = link_to(*base::local_port(listening->get()));
  const base::Timer killed = loop.after(300ms, [&] { listening->reset(); });
  EXPECT_EQ(lost_within(link, 20s), "it has ended");
}

TEST_F(SuspendedLinkTest, IsLostWhenNothingAnswersForTheLease) {
  const testing_support::SilentListener silent(here());
  SuspendedLink link = link_to(silent.port());
  EXPECT_EQ(lost_within(link, 20s), "its machine does not answer");
}

}  // namespace
}  // namespace muster::agent::suspended_link_test
