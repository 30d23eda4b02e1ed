#include "launcherd/relays/first_bytes.h"

#include <sys/socket.h>

#include <string>

#include <gtest/gtest.h>

#include "base/net.h"
#include "proto/relay_frame.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::launcherd::first_bytes_test {
namespace {

using testing_support::read_bytes;
using testing_support::write_bytes;
using Peer = FirstBytes::Peer;

class FirstBytesTest : public ::testing::Test {
 protected:
  FirstBytesTest() : pair_(*base::make_socketpair(SOCK_STREAM)), first_(std::move(pair_.first)) {}
  int far() const { return pair_.second.get(); }

  base::FdPair pair_;
  FirstBytes first_;
};

TEST_F(FirstBytesTest, LeavesAllBytesOfAnAgent) {
  EXPECT_EQ(first_.read(), Peer::kUnknown);
  write_bytes(far(), std::string("\x16\x03\x01", 3));
  EXPECT_EQ(first_.read(), Peer::kAgent);
  const base::UniqueFd fd = first_.take();
  EXPECT_EQ(read_bytes(fd.get(), 3), std::string("\x16\x03\x01", 3));
}

TEST_F(FirstBytesTest, ReadsTheHelloOfARelayInAnyPieces) {
  const std::string hello(proto::kRelayHello);
  for (std::size_t i = 0; i + 1 < hello.size(); ++i) {
    write_bytes(far(), hello.substr(i, 1));
    EXPECT_EQ(first_.read(), Peer::kUnknown);
  }
  write_bytes(far(), hello.substr(hello.size() - 1) + "frames");
  EXPECT_EQ(first_.read(), Peer::kRelay);
  const base::UniqueFd fd = first_.take();
  EXPECT_EQ(read_bytes(fd.get(), 6), "frames");
}

TEST_F(FirstBytesTest, RefusesAHelloThatIsAlmostARelays) {
  write_bytes(far(), "MUSTRLY2");
  EXPECT_EQ(first_.read(), Peer::kGone);
}

TEST_F(FirstBytesTest, NoticesTheEnd) {
  write_bytes(far(), "MUST");
  EXPECT_EQ(first_.read(), Peer::kUnknown);
  pair_.second.reset();
  EXPECT_EQ(first_.read(), Peer::kGone);
  auto pair = *base::make_socketpair(SOCK_STREAM);
  FirstBytes silent(std::move(pair.first));
  pair.second.reset();
  EXPECT_EQ(silent.read(), Peer::kGone);
}

}  // namespace
}  // namespace muster::launcherd::first_bytes_test
