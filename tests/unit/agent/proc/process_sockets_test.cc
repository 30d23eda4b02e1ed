#include "agent/proc/process_sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::process_sockets_test {
namespace {

// Two lines of a kernel 6.1 of x86-64, and what is left out: headings, other states, other addresses, half a line.
constexpr std::string_view kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0\n"
    "   1: 0200000A:9D78 0100000A:733C 01 00000000:00000000 02:000000A3 00000000  1000        0 4712 2 0 20 4 0 10 -1\n"
    "   2: 0200000A:9D79 0100000A:733C 06 00000000:00000000 03:000000A3 00000000     0        0 0 3 0\n"
    "   3: 0200000A:9D7A 0100000A:733C 01 00000000:00000000 02:000000A3 00000000  1000        0\n"
    "   4: 0200000:9D7B 0100000A:733C 01 00000000:00000000 02:000000A3 00000000  1000        0 4713 2 0\n"
    "   5: 0200000A:9D7C 0100000A:173 01 00000000:00000000 02:000000A3 00000000  1000        0 x 2 0\n";

constexpr std::string_view kTable6 =
    "   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:9D78 01 0:0 0:0 0 1000 0 9 1 0\n"
    "   1: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 0:0 0:0 0 1000 0 8 1 0";

TEST(ProcessSockets, ParsesATable) {
  const auto sockets = parse_tcp_table(kTable);
  ASSERT_EQ(sockets.size(), 2U);
  EXPECT_EQ(sockets[0].local.str(), "127.0.0.1");
  EXPECT_EQ(sockets[0].local_port, 8080);
  EXPECT_TRUE(sockets[0].is_listening);
  EXPECT_EQ(sockets[0].inode, 4711U);
  EXPECT_EQ(sockets[1].local.str(), "10.0.0.2");
  EXPECT_EQ(sockets[1].local_port, 40312);
  EXPECT_EQ(sockets[1].peer.str(), "10.0.0.1");
  EXPECT_EQ(sockets[1].peer_port, 29500);
  EXPECT_FALSE(sockets[1].is_listening);
}

TEST(ProcessSockets, ParsesATableOfIpv6) {
  const auto sockets = parse_tcp_table(kTable6);
  ASSERT_EQ(sockets.size(), 2U);
  EXPECT_EQ(sockets[0].local.str(), "127.0.0.1") << "an IPv4 address in an IPv6 socket";
  EXPECT_EQ(sockets[0].peer_port, 40312);
  EXPECT_EQ(sockets[1].local.str(), "::1");
  EXPECT_TRUE(sockets[1].is_listening);
}

TEST(ProcessSockets, JunkHasNoSockets) {
  for (const char* junk : {"", "\n\n", "a", "1 2 3 4 5 6 7 8 9 10", ": : : 01 : : : : : 9"}) {
    EXPECT_TRUE(parse_tcp_table(junk).empty()) << junk;
  }
}

std::uint64_t inode_of(const base::UniqueFd& fd) {
  struct stat status {};
  EXPECT_EQ(::fstat(fd.get(), &status), 0);
  return status.st_ino;
}

TEST(ProcessSockets, FindsThoseOfThisProcess) {
  const base::UniqueFd listening = base::listen_any(0, 1).value();
  const std::uint16_t port = base::local_port(listening.get()).value();
  const base::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr address = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port);
  ASSERT_EQ(::connect(client.get(), address.get(), address.size), 0);
  EXPECT_TRUE(socket_inodes(::getpid()).contains(inode_of(client)));
  EXPECT_TRUE(has_socket(::getpid(), inode_of(listening)));
  EXPECT_FALSE(has_socket(::getpid(), 1));
  EXPECT_FALSE(has_socket(-1, inode_of(listening)));
  SocketTables tables;
  bool has_listener = false;
  bool has_client = false;
  for (const TcpSocket& socket : tables.of(::getpid())) {
    has_listener = has_listener || (socket.is_listening && socket.local_port == port);
    has_client = has_client || (!socket.is_listening && socket.peer_port == port &&
                                socket.local_port == base::local_port(client.get()).value());
  }
  EXPECT_TRUE(has_listener);
  EXPECT_TRUE(has_client);
  EXPECT_TRUE(tables.of(-1).empty());
}

}  // namespace
}  // namespace muster::agent::process_sockets_test
