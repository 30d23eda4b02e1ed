#include "agent/relay/relay_child.h"

#include <sys/socket.h>

#include <string>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::agent::relay_child_test {
namespace {

using proto::RelayKind;
using proto::ViaService;
using testing_support::read_bytes;
using testing_support::write_bytes;

class RelayChildTest : public ::testing::Test {
 protected:
  RelayChildTest()
      : pair_(*base::make_socketpair(SOCK_STREAM)), child_(std::move(pair_.first), base::MonotonicTime()) {}

  int far() const { return pair_.second.get(); }
  // The only frame in `bytes`.
  static proto::RelayFrame frame_of(const std::string& bytes) {
    const auto parse = proto::parse_relay_frame(bytes);
    EXPECT_TRUE(parse.ok() && parse->is_complete && parse->size == bytes.size());
    return parse->frame;
  }
  void open() {
    child_.phase = RelayChild::Phase::kOpen;
    child_.stream = 9;
  }

  base::FdPair pair_;
  RelayChild child_;
  std::string outgoing_;
};

TEST_F(RelayChildTest, ReadsItsHelloInAnyPieces) {
  for (const char byte : proto::via_hello(ViaService::kOutput)) {
    const auto early = child_.read_hello();
    ASSERT_TRUE(early.ok()) << early.status();
    EXPECT_FALSE(*early);
    write_bytes(far(), std::string(1, byte));
  }
  const auto last = child_.read_hello();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_TRUE(*last);
  EXPECT_EQ(child_.service(), ViaService::kOutput);
}

TEST_F(RelayChildTest, HelloTakesNoByteOfWhatFollows) {
  write_bytes(far(), proto::via_hello(ViaService::kControl) + "TLS");
  const auto complete = child_.read_hello();
  ASSERT_TRUE(complete.ok() && *complete);
  open();
  const auto moved = child_.forward(outgoing_);
  ASSERT_TRUE(moved.ok() && *moved);
  EXPECT_EQ(frame_of(outgoing_).payload, "TLS");
  EXPECT_EQ(frame_of(outgoing_).stream, 9U);
}

TEST_F(RelayChildTest, RefusesAnotherHelloAndNoticesTheEnd) {
  write_bytes(far(), "GET / HTTP/1.1");
  EXPECT_EQ(child_.read_hello().status().code(), base::Code::kInvalidArgument);
  auto pair = *base::make_socketpair(SOCK_STREAM);
  RelayChild silent(std::move(pair.first), base::MonotonicTime());
  pair.second.reset();
  EXPECT_EQ(silent.read_hello().status().code(), base::Code::kUnavailable);
}

TEST_F(RelayChildTest, SendsNoMoreThanTheCredit) {
  open();
  child_.credit = 10;
  write_bytes(far(), "0123456789abc");
  EXPECT_TRUE(child_.may_read());
  ASSERT_TRUE(*child_.forward(outgoing_));
  EXPECT_EQ(frame_of(outgoing_).payload, "0123456789");
  EXPECT_EQ(child_.credit, 0U);
  EXPECT_FALSE(child_.may_read());
  EXPECT_FALSE(*child_.forward(outgoing_));
  child_.credit = 100;
  outgoing_.clear();
  ASSERT_TRUE(*child_.forward(outgoing_));
  EXPECT_EQ(frame_of(outgoing_).payload, "abc");
  EXPECT_FALSE(*child_.forward(outgoing_)) << "nothing more is there";
}

// The child reads nothing. Its relay takes one window, and refuses a launcher that sends more.
TEST_F(RelayChildTest, KeepsOneWindowForAChildThatDoesNotRead) {
  open();
  ASSERT_TRUE(child_.take(std::string(proto::kRelayWindow, 'x')).ok());
  ASSERT_TRUE(child_.write_some(outgoing_).ok());
  EXPECT_TRUE(child_.wants_write);
  EXPECT_TRUE(child_.has_unsent());
  std::size_t granted = 0;
  if (!outgoing_.empty()) granted = frame_of(outgoing_).credit;
  EXPECT_LT(granted, proto::kRelayWindow);
  EXPECT_EQ(child_.take(std::string(granted + 1, 'x')).code(), base::Code::kInvalidArgument);
  EXPECT_TRUE(child_.take(std::string(granted, 'x')).ok());
}

TEST_F(RelayChildTest, GrantsWhatTheChildHasTaken) {
  open();
  std::uint32_t granted = 0;
  std::uint32_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string block(10'000, static_cast<char>('a' + i % 26));
    ASSERT_TRUE(child_.take(block).ok());
    sent += 10'000;
    outgoing_.clear();
    ASSERT_TRUE(child_.write_some(outgoing_).ok());
    if (!outgoing_.empty()) {
      EXPECT_EQ(frame_of(outgoing_).kind, RelayKind::kCredit);
      granted += frame_of(outgoing_).credit;
    }
    EXPECT_EQ(read_bytes(far(), block.size()), block);
  }
  EXPECT_FALSE(child_.has_unsent());
  EXPECT_LE(granted, sent);
  EXPECT_LT(sent - granted, proto::kRelayWindow / 4);
}

TEST_F(RelayChildTest, EchoesBytes) {
  write_bytes(far(), "?");
  ASSERT_TRUE(child_.echo().ok());
  EXPECT_EQ(read_bytes(far(), 1), "?");
  ASSERT_TRUE(child_.echo().ok()) << "nothing is there";
  pair_.second.reset();
  EXPECT_EQ(child_.echo().code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace muster::agent::relay_child_test
