#include "agent/host/host_facts.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/net.h"

namespace muster::agent::host_facts_test {
namespace {

TEST(HostFacts, WhoThisHostIs) {
  base::Environment login;
  login.set("SSH_CONNECTION", "10.0.0.9 5000 10.0.0.1 22");
  v1::Hello hello;
  ASSERT_TRUE(fill_host_facts(login, {}, hello).ok());
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(hello.hostname(), name);
  EXPECT_EQ(hello.uid(), ::geteuid());
  EXPECT_NE(hello.netns_inode(), 0u);
  EXPECT_EQ(hello.ssh_client_address(), "10.0.0.9");
  EXPECT_EQ(hello.ssh_server_address(), "10.0.0.1");
  EXPECT_GT(hello.memory_mib(), 0);
}

TEST(HostFacts, LoopbackIsReachedByLoopback) {
  const auto route = find_route("127.0.0.1");
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_EQ(route->interface(), "lo");
  EXPECT_EQ(route->address(), "127.0.0.1");
  EXPECT_FALSE(find_route("not an address").ok());
}

TEST(HoldPort, HeldWithoutListeningAndSharedWithARank) {
  const auto held = hold_port();
  ASSERT_TRUE(held.ok()) << held.status();
  const auto port = base::local_port(held->get());
  ASSERT_TRUE(port.ok());
  int listening = 1;
  socklen_t size = sizeof listening;
  ASSERT_EQ(::getsockopt(held->get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size), 0);
  EXPECT_EQ(listening, 0);
  const auto bind_there = [&](bool reuse) {
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (reuse) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const base::SockAddr any = base::make_sockaddr(*base::IpAddress::parse("0.0.0.0"), *port);
    return ::bind(fd.get(), any.get(), any.size) == 0 && ::listen(fd.get(), 1) == 0;
  };
  EXPECT_FALSE(bind_there(false));  // a program that comes by chance
  EXPECT_TRUE(bind_there(true));    // a TCPStore
}

}  // namespace
}  // namespace muster::agent::host_facts_test
