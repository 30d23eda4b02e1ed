#include "base/ip_network.h"

#include <gtest/gtest.h>

namespace muster::base::ip_network_test {
namespace {

bool contains(const char* network, const char* address) {
  const auto parsed = IpNetwork::parse(network);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->contains(*IpAddress::parse(address));
}

TEST(IpNetwork, ContainsWhatSharesItsBits) {
  EXPECT_TRUE(contains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(contains("10.0.0.0/8", "11.0.0.1"));
  EXPECT_TRUE(contains("10.1.128.0/17", "10.1.255.255"));
  EXPECT_FALSE(contains("10.1.128.0/17", "10.1.127.255"));
  EXPECT_TRUE(contains("0.0.0.0/0", "203.0.113.9"));
  EXPECT_TRUE(contains("192.0.2.7", "192.0.2.7"));
  EXPECT_FALSE(contains("192.0.2.7/32", "192.0.2.6"));
  EXPECT_TRUE(contains("fd00::/8", "fdab::1"));
  EXPECT_FALSE(contains("fd00::/8", "fe80::1"));
  EXPECT_TRUE(contains("::/0", "2001:db8::1"));
  EXPECT_TRUE(contains("fe80::/64", "fe80::1%lo"));
}

TEST(IpNetwork, FamiliesDoNotMix) {
  EXPECT_FALSE(contains("::/0", "10.0.0.1"));
  EXPECT_FALSE(contains("0.0.0.0/0", "::1"));
}

TEST(IpNetwork, RefusesTheRestWithOneSentence) {
  for (const char* text : {"", "eth0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8/8", "10.1.2.3/16",
                           "fd00::1/8", "fe80::1%lo/64", "10.0.0/8", "::/129", "/8"}) {
    const auto parsed = IpNetwork::parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find("is not a network"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace muster::base::ip_network_test
