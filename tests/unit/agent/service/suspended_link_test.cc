#include "agent/service/suspended_link.h"

#include <sys/socket.h>

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace muster::agent::suspended_link_test {
namespace {

using namespace std::chrono_literals;

struct SuspendedLinkTest : ::testing::Test {
  static base::IpAddress here() { return *base::IpAddress::parse("127.0.0.1"); }

  // What was reported within `bound`.
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

// The kernel of a stopped launcher takes the connection and answers the probes: longer than the lease.
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

// A queue that is full answers nothing, as a machine behind a cut link.
TEST_F(SuspendedLinkTest, IsLostWhenNothingAnswersForTheLease) {
  auto listening = base::listen_on(here(), 0, 0);
  ASSERT_TRUE(listening.ok());
  const std::uint16_t port = *base::local_port(listening->get());
  std::vector<base::UniqueFd> queue;
  const base::SockAddr to = base::make_sockaddr(here(), port);
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(queue.back().get(), to.get(), to.size);
  }
  SuspendedLink link = link_to(port);
  EXPECT_EQ(lost_within(link, 20s), "its machine does not answer");
}

}  // namespace
}  // namespace muster::agent::suspended_link_test
