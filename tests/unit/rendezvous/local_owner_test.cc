#include "rendezvous/local_owner.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::rendezvous::local_owner_test {
namespace {

// A connection within this host; ends as the accepting side sees them.
struct Connection {
  base::UniqueFd client;
  base::UniqueFd server;

  static Connection make(const char* address, bool client_is_v6 = false) {
    const base::UniqueFd listening = *base::listen_any(0, 8);
    const std::uint16_t port = *base::local_port(listening.get());
    base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse(address), port);
    if (client_is_v6 && to.get()->sa_family == AF_INET) to = mapped(to);
    Connection made;
    made.client.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(made.client.get(), to.get(), to.size), 0);
    EXPECT_TRUE(base::set_nonblocking(listening.get(), false).ok());
    made.server.reset(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(made.server.valid());
    return made;
  }

  static base::SockAddr mapped(const base::SockAddr& v4) {
    base::SockAddr result;
    const auto* from = reinterpret_cast<const sockaddr_in*>(&v4.storage);
    auto* to = reinterpret_cast<sockaddr_in6*>(&result.storage);
    to->sin6_family = AF_INET6;
    to->sin6_port = from->sin_port;
    to->sin6_addr.s6_addr[10] = to->sin6_addr.s6_addr[11] = 0xFF;
    std::memcpy(to->sin6_addr.s6_addr + 12, &from->sin_addr, 4);
    result.size = sizeof *to;
    return result;
  }

  ConnectionEnds ends() const {
    return {*base::peer_address(server.get()), *base::local_port(client.get()), *base::local_address(server.get()),
            *base::local_port(server.get())};
  }
};

void expect_own(const Connection& connection) {
  const auto owner = local_owner(connection.ends());
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, ::getuid());
}

TEST(LocalOwner, OfIpv4) {
  expect_own(Connection::make("127.0.0.1"));
}

TEST(LocalOwner, OfIpv6) {
  expect_own(Connection::make("::1"));
}

TEST(LocalOwner, OfIpv4BetweenIpv6Sockets) {
  expect_own(Connection::make("127.0.0.1", true));
}

TEST(LocalOwner, OfThisHostsOtherAddresses) {
  const auto all = base::interface_addresses();
  ASSERT_TRUE(all.ok());
  for (const base::InterfaceAddress& one : *all) {
    SCOPED_TRACE(one.address.str());
    expect_own(Connection::make(one.address.str().c_str()));
  }
}

TEST(LocalOwner, OfOurOwnEndOnlyTheOtherWayRound) {
  const Connection connection = Connection::make("127.0.0.1");
  ConnectionEnds ends = connection.ends();
  ++ends.peer_port;
  EXPECT_EQ(local_owner(ends).status().code(), base::Code::kNotFound);
}

TEST(LocalOwner, NobodyOwnsAPeerElsewhere) {
  Connection connection = Connection::make("127.0.0.1");
  ConnectionEnds ends = connection.ends();
  ends.peer = *base::IpAddress::parse("198.51.100.7");
  EXPECT_EQ(local_owner(ends).status().code(), base::Code::kNotFound);
}

// The kernel says uid 0 of what no process holds: root's store must not take that for root.
TEST(LocalOwner, NobodyOwnsAClosedPeer) {
  Connection connection = Connection::make("127.0.0.1");
  const ConnectionEnds ends = connection.ends();
  ASSERT_EQ(::send(connection.client.get(), "x", 1, 0), 1);
  connection.client.reset();
  EXPECT_EQ(local_owner(ends).status().code(), base::Code::kNotFound);
  connection.server.reset();
  EXPECT_EQ(local_owner(ends).status().code(), base::Code::kNotFound);
}

TEST(LocalOwner, AHalfClosedPeerIsStillOwned) {
  const Connection connection = Connection::make("127.0.0.1");
  ASSERT_EQ(::shutdown(connection.client.get(), SHUT_WR), 0);
  expect_own(connection);
}

TEST(LocalOwner, FamiliesMustAgree) {
  const ConnectionEnds ends{*base::IpAddress::parse("127.0.0.1"), 1, *base::IpAddress::parse("::1"), 2};
  EXPECT_EQ(local_owner(ends).status().code(), base::Code::kInvalidArgument);
}

bool is_allowed(uid_t uid, const ConnectionEnds& ends) {
  bool result = false;
  int calls = 0;
  allow_local_owner(uid)(ends, [&](bool allowed) {
    result = allowed;
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  return result;
}

TEST(LocalOwner, AllowsItsUserOnly) {
  const Connection connection = Connection::make("127.0.0.1");
  EXPECT_TRUE(is_allowed(::getuid(), connection.ends()));
  EXPECT_FALSE(is_allowed(::getuid() + 1, connection.ends()));
  ConnectionEnds elsewhere = connection.ends();
  elsewhere.peer = *base::IpAddress::parse("198.51.100.7");
  EXPECT_FALSE(is_allowed(::getuid(), elsewhere));
}

TEST(LocalOwner, OfAnotherUsersProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  constexpr uid_t kBob = 12345;
  const base::UniqueFd listening = *base::listen_any(0, 8);
  ASSERT_TRUE(base::set_nonblocking(listening.get(), false).ok());
  const std::uint16_t port = *base::local_port(listening.get());
  base::FdPair until_seen = *base::make_pipe();
  const pid_t bob = ::fork();
  if (bob == 0) {
    until_seen.second.reset();
    if (::setresuid(kBob, kBob, kBob) != 0) ::_exit(1);
    const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port);
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), to.get(), to.size) != 0) ::_exit(1);
    char byte;
    ::_exit(::read(until_seen.first.get(), &byte, 1) == 0 ? 0 : 1);
  }
  base::SockAddr peer;
  peer.size = sizeof peer.storage;
  const base::UniqueFd accepted(
      ::accept4(listening.get(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.valid());
  const std::uint16_t peer_port = ntohs(reinterpret_cast<const sockaddr_in6*>(&peer.storage)->sin6_port);
  const ConnectionEnds ends{*base::peer_address(accepted.get()), peer_port, *base::local_address(accepted.get()), port};
  const auto owner = local_owner(ends);
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, kBob);
  EXPECT_FALSE(is_allowed(0, ends));
  EXPECT_TRUE(is_allowed(kBob, ends));
  until_seen.second.reset();
  int status = 0;
  ASSERT_EQ(::waitpid(bob, &status, 0), bob);
  EXPECT_EQ(status, 0);
}

TEST(LocalOwner, NamesTheSocketOfThePeer) {
  const Connection connection = Connection::make("127.0.0.1");
  struct stat client {};
  ASSERT_EQ(::fstat(connection.client.get(), &client), 0);
  const auto socket = local_socket(connection.ends());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(socket->inode, client.st_ino);
  EXPECT_EQ(socket->uid, ::getuid());
}

}  // namespace
}  // namespace muster::rendezvous::local_owner_test
