#include "base/net.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include <gtest/gtest.h>

namespace muster::base::net_test {
namespace {

TEST(IpAddress, ParsesToItsCanonicalText) {
  const std::pair<const char*, const char*> table[] = {{"10.0.0.1", "10.0.0.1"},
                                                       {"::1", "::1"},
                                                       {"0:0::1", "::1"},
                                                       {"FE80::A", "fe80::a"},
                                                       {"::ffff:10.0.0.1", "10.0.0.1"},
                                                       {"fe80::1%lo", "fe80::1%lo"}};
  for (const auto& [text, canonical] : table) {
    const auto address = IpAddress::parse(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->str(), canonical);
    EXPECT_EQ(IpAddress::parse(address->str()).value(), *address);
  }
}

TEST(IpAddress, RefusesTheRest) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv, "10.0.0"sv, "10.0.0.256"sv, "10.0.0.1%lo"sv, "n1"sv, "[::1]"sv, ":::1"sv,
                                      "::1\0x"sv, "10.0.0.1\0"sv, " ::1"sv}) {
    EXPECT_FALSE(IpAddress::parse(text).ok()) << text;
  }
}

TEST(IpAddress, KnowsItsKind) {
  const auto parse = [](const char* text) { return IpAddress::parse(text).value(); };
  EXPECT_TRUE(parse("127.8.0.1").is_loopback());
  EXPECT_TRUE(parse("::1").is_loopback());
  EXPECT_FALSE(parse("10.0.0.1").is_loopback());
  EXPECT_TRUE(parse("169.254.1.1").is_link_local());
  EXPECT_TRUE(parse("fe80::1").is_link_local());
  EXPECT_FALSE(parse("2001:db8::1").is_link_local());
  EXPECT_TRUE(parse("::1").is_v6());
  EXPECT_FALSE(parse("10.0.0.1").is_v6());
}

TEST(IpAddress, EndpointsAndSocketAddressesRoundTrip) {
  EXPECT_EQ(format_endpoint(IpAddress::parse("1.2.3.4").value(), 80), "1.2.3.4:80");
  EXPECT_EQ(format_endpoint(IpAddress::parse("::1").value(), 80), "[::1]:80");
  for (const char* text : {"1.2.3.4", "2001:db8::7", "fe80::1%lo"}) {
    const IpAddress address = IpAddress::parse(text).value();
    const SockAddr socket_address = make_sockaddr(address, 80);
    EXPECT_EQ(IpAddress::from_sockaddr(socket_address.get()).value(), address);
  }
  SockAddr other;
  other.storage.ss_family = AF_UNIX;
  EXPECT_FALSE(IpAddress::from_sockaddr(other.get()).ok());
}

TEST(Interfaces, LoopbackComesLastAndIsFound) {
  const auto all = interface_addresses().value();
  const auto first_loopback = std::ranges::find_if(all, [](const auto& entry) { return entry.address.is_loopback(); });
  ASSERT_NE(first_loopback, all.end());
  EXPECT_TRUE(std::all_of(first_loopback, all.end(), [](const auto& entry) { return entry.address.is_loopback(); }));
  const IpAddress loopback = IpAddress::parse("127.0.0.1").value();
  EXPECT_EQ(interface_of(loopback).value(), "lo");
  EXPECT_EQ(route_source(loopback).value(), loopback);
  EXPECT_EQ(interface_of(IpAddress::parse("192.0.2.77").value()).status().code(), Code::kNotFound);
}

TEST(ListenAny, TakesConnectionsAndNamesBothEnds) {
  const UniqueFd listener = listen_any(0, 8).value();
  const std::uint16_t port = local_port(listener.get()).value();
  ASSERT_NE(port, 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SockAddr to = make_sockaddr(IpAddress::parse("127.0.0.1").value(), port);
  ASSERT_EQ(::connect(client.get(), to.get(), to.size), 0);
  pollfd ready{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, 5000), 1);
  const UniqueFd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(server.valid());
  EXPECT_EQ(peer_address(server.get())->str(), "127.0.0.1") << "IPv4 over a dual-stack socket is IPv4";
  EXPECT_EQ(local_address(server.get())->str(), "127.0.0.1");
  EXPECT_EQ(local_port(server.get()).value(), port);
}

TEST(ListenAny, TakenPortIsNamed) {
  const UniqueFd listener = listen_any(0, 8).value();
  const std::uint16_t port = local_port(listener.get()).value();
  const auto second = listen_any(port, 8);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(std::to_string(port)), std::string::npos);
}

TEST(Listening, APortToKeepIsThereAgain) {
  UniqueFd first;
  std::uint16_t port = 0;
  for (int i = 0; i < 50 && !first.valid(); ++i) {
    port = port_to_keep();
    auto listening = listen_any(port, 8);
    if (listening.ok()) first = std::move(*listening);
  }
  ASSERT_TRUE(first.valid());
  // The side that closes first keeps the connection for a while.
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SockAddr to = make_sockaddr(IpAddress::parse("127.0.0.1").value(), port);
  ASSERT_EQ(connect(client.get(), to.get(), to.size), 0);
  UniqueFd server(accept4(first.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(server.valid());
  server.reset();
  first.reset();
  client.reset();
  EXPECT_TRUE(listen_any(port, 8).ok());
}

}  // namespace
}  // namespace muster::base::net_test
