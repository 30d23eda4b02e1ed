#include "agent/evidence/store_connection.h"

#include <gtest/gtest.h>

namespace muster::agent::store_connection_test {
namespace {

base::IpAddress address(const char* text) {
  return base::IpAddress::parse(text).value();
}

TcpSocket socket(std::uint16_t local_port, std::uint16_t peer_port, bool is_listening = false) {
  return {.local = address("10.0.0.2"),
          .local_port = local_port,
          .peer = address("fd00::1"),
          .peer_port = peer_port,
          .is_listening = is_listening,
          .inode = 1};
}

TEST(StoreConnection, TheRankIsThePeer) {
  const std::vector<TcpSocket> sockets{socket(40002, 29500), socket(40001, 29500), socket(40003, 29501),
                                       socket(29500, 0, true)};
  const auto connections = store_connections(sockets, 29500);
  ASSERT_EQ(connections.size(), 2U);
  EXPECT_EQ(connections[0].peer_port, 40001);
  EXPECT_EQ(connections[0].peer.str(), "10.0.0.2");
  EXPECT_EQ(connections[0].local.str(), "fd00::1");
  EXPECT_EQ(connections[0].local_port, 29500);
  EXPECT_TRUE(store_connections(std::vector<TcpSocket>(9, socket(40001, 29500)), 29500).empty()) << "too many";
}

TEST(StoreConnection, TravelsAsText) {
  const std::vector<TcpSocket> sockets{socket(40001, 29500), socket(40002, 29500)};
  const std::string text = format_store_connections(store_connections(sockets, 29500));
  EXPECT_EQ(text, "10.0.0.2 40001 fd00::1 29500; 10.0.0.2 40002 fd00::1 29500");
  const auto parsed = parse_store_connections(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(format_store_connections(*parsed), text);
  EXPECT_TRUE(parse_store_connections("").value().empty());
}

TEST(StoreConnection, JunkIsRefused) {
  for (const char* junk : {"the key \"x\" in the store", ";", "10.0.0.2 40001 10.0.0.1", "10.0.0.2 65536 10.0.0.1 1",
                           "a 1 10.0.0.1 1", "10.0.0.2 1 b 1", "10.0.0.2 -1 10.0.0.1 1"}) {
    EXPECT_FALSE(parse_store_connections(junk).ok()) << junk;
  }
}

}  // namespace
}  // namespace muster::agent::store_connection_test
