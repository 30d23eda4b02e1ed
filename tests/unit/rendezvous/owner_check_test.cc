#include "rendezvous/owner_check.h"

#include <gtest/gtest.h>

#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::owner_check_test {
namespace {

TEST(ConnectionEnds, NamesBothEndsAsEachSideSeesThem) {
  const base::UniqueFd listening = base::listen_any(0, 1).value();
  const base::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(connection_ends(client.get()).ok()) << "not connected";
  const std::uint16_t port = base::local_port(listening.get()).value();
  const base::SockAddr to = base::make_sockaddr(loopback(), port);
  ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
  const ConnectionEnds ends = connection_ends(client.get()).value();
  EXPECT_EQ(ends.peer, loopback());
  EXPECT_EQ(ends.peer_port, port);
  EXPECT_EQ(ends.local, loopback());
  EXPECT_EQ(ends.local_port, base::local_port(client.get()).value());
}

}  // namespace
}  // namespace muster::rendezvous::owner_check_test
