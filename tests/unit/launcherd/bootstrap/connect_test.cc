#include "launcherd/bootstrap/connect.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace muster::launcherd::connect_test {
namespace {

Waiter patience() {
  return {-1, std::chrono::steady_clock::now() + std::chrono::seconds(30)};
}

TEST(ConnectTest, ResolvesLiteralsAndNames) {
  std::vector<base::IpAddress> addresses;
  ASSERT_TRUE(resolve_host("::1", patience(), addresses).ok());
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses[0].str(), "::1");
  addresses.clear();
  ASSERT_TRUE(resolve_host("localhost", patience(), addresses).ok());
  EXPECT_TRUE(addresses[0].is_loopback());
  EXPECT_EQ(resolve_host("no-such-host.invalid", patience(), addresses).kind, FailureKind::kNameNotFound);
}

TEST(ConnectTest, TriesEveryAddressOfAName) {
  // On most machines localhost is ::1 and 127.0.0.1. Only the latter listens here.
  const base::UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), 0);
  ASSERT_EQ(::bind(server.get(), address.get(), address.size), 0);
  ASSERT_EQ(::listen(server.get(), 4), 0);
  base::UniqueFd socket;
  ASSERT_TRUE(connect_host("localhost", *base::local_port(server.get()), patience(), socket).ok());
  EXPECT_EQ(base::peer_address(socket.get())->str(), "127.0.0.1");
}

TEST(ConnectTest, RefusedNamesTheAddress) {
  base::UniqueFd socket;
  const Failure failure = connect_host("127.0.0.1", 1, patience(), socket);
  EXPECT_EQ(failure.kind, FailureKind::kRefused);
  EXPECT_EQ(failure.address, "127.0.0.1 port 1");
  EXPECT_FALSE(socket.valid());
}

TEST(ConnectTest, CancelAndDeadline) {
  CancelSource cancel;
  cancel.cancel();
  std::vector<base::IpAddress> addresses;
  EXPECT_EQ(resolve_host("no-such-host.invalid", {cancel.fd(), patience().deadline}, addresses).kind,
            FailureKind::kCancelled);
  const Waiter late{-1, std::chrono::steady_clock::now()};
  EXPECT_EQ(late.check().code(), base::Code::kDeadlineExceeded);
  EXPECT_EQ(late.wait({}).code(), base::Code::kDeadlineExceeded);
  EXPECT_TRUE(patience().pause(std::chrono::milliseconds(1)).ok());
}

}  // namespace
}  // namespace muster::launcherd::connect_test
