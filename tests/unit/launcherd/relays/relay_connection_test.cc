// The launcher's end of a relay's connection. The test plays the relay, also one that lies.
#include "launcherd/relays/relay_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::launcherd::relay_connection_test {
namespace {

using base::ByteChannel;
using proto::RelayKind;
using testing_support::RelayPeer;

class RelayConnectionTest : public ::testing::Test {
 protected:
  RelayConnectionTest() : RelayConnectionTest(*base::make_socketpair(SOCK_STREAM)) {}
  explicit RelayConnectionTest(base::FdPair pair) : relay_(std::move(pair.second)) {
    RelayConnection::Events events;
    events.on_open = [this](std::uint32_t stream, std::unique_ptr<ByteChannel> channel) {
      if (accepts_) channels_[stream] = std::move(channel);
    };
    events.on_ready = [this](std::uint32_t stream) { ready_.push_back(stream); };
    connection_ = std::make_unique<RelayConnection>(std::move(pair.first), std::move(events));
  }

  void open(std::uint32_t stream) { relay_.send({.kind = RelayKind::kOpen, .stream = stream}); }
  ByteChannel& channel(std::uint32_t stream) { return *channels_.at(stream); }
  // Serves what is in the socket, to the end.
  base::Status serve() {
    do {
      MUSTER_RETURN_IF_ERROR(connection_->serve());
    } while (connection_->has_more());
    return connection_->write_pending();
  }
  // The frames that the relay has got.
  std::vector<RelayPeer::Frame> frames() {
    EXPECT_TRUE(connection_->write_pending().ok());
    std::vector<RelayPeer::Frame> all;
    while (testing_support::is_readable(relay_.fd())) {
      auto frame = relay_.next();
      if (!frame) break;
      all.push_back(*std::move(frame));
      EXPECT_TRUE(connection_->write_pending().ok());
    }
    return all;
  }
  static std::string read(ByteChannel& channel, std::size_t size) {
    std::string bytes(size, '\0');
    const long n = channel.read(bytes.data(), size);
    bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return bytes;
  }
  static long read_result(ByteChannel& channel) {
    char byte = 0;
    return channel.read(&byte, 1);
  }
  // Expects that serve() ends the connection with this reason, and that no stream can go on.
  void expect_end(base::Code code, const std::string& reason) {
    const base::Status status = serve();
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(status.message(), reason);
    for (const auto& [stream, one] : channels_) EXPECT_EQ(one->write("x", 1), ByteChannel::kBroken) << stream;
  }

  RelayPeer relay_;
  bool accepts_ = true;
  std::map<std::uint32_t, std::unique_ptr<ByteChannel>> channels_;
  std::vector<std::uint32_t> ready_;
  std::unique_ptr<RelayConnection> connection_;
};

TEST_F(RelayConnectionTest, CarriesStreamsBothWays) {
  for (const std::uint32_t stream : {1U, 2U, 7U}) open(stream);
  relay_.send_data(2, "hello");
  relay_.send_data(1, "one");
  ASSERT_TRUE(serve().ok());
  ASSERT_EQ(channels_.size(), 3U);
  EXPECT_EQ(connection_->streams(), 3U);
  EXPECT_EQ(ready_, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(read(channel(2), 3), "hel");
  EXPECT_EQ(read(channel(2), 100), "lo");
  EXPECT_EQ(read_result(channel(2)), ByteChannel::kLater);
  EXPECT_EQ(read(channel(1), 100), "one");
  EXPECT_EQ(channel(7).write("seven", 5), 5);
  EXPECT_EQ(channel(1).write("uno", 3), 3);
  const auto all = frames();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].stream, 7U);
  EXPECT_EQ(all[0].payload, "seven");
  EXPECT_EQ(all[1].payload, "uno");
}

TEST_F(RelayConnectionTest, ReadsFramesInAnyPieces) {
  std::string bytes;
  proto::append_relay_frame({.kind = RelayKind::kOpen, .stream = 1}, bytes);
  proto::append_relay_frame({.kind = RelayKind::kData, .stream = 1, .payload = "hello"}, bytes);
  for (const char byte : bytes) {
    testing_support::write_bytes(relay_.fd(), std::string(1, byte));
    ASSERT_TRUE(serve().ok());
  }
  EXPECT_EQ(read(channel(1), 100), "hello");
}

TEST_F(RelayConnectionTest, GrantsOnlyWhatItsReaderHasTaken) {
  open(1);
  ASSERT_TRUE(serve().ok());
  const std::string block(proto::kMaxRelayPayload, 'x');
  for (std::size_t sent = 0; sent < proto::kRelayWindow; sent += block.size()) {
    relay_.send_data(1, block);
    ASSERT_TRUE(serve().ok());
  }
  EXPECT_TRUE(frames().empty()) << "nothing was read";
  std::size_t taken = 0;
  std::size_t granted = 0;
  while (taken < proto::kRelayWindow) {
    taken += read(channel(1), 10'000).size();
    for (const auto& frame : frames()) {
      EXPECT_EQ(frame.kind, RelayKind::kCredit);
      granted += frame.credit;
    }
    EXPECT_LE(granted, taken);
  }
  EXPECT_LT(taken - granted, proto::kRelayWindow / 4);
}

TEST_F(RelayConnectionTest, WritesOneWindowAndGoesOnWithCredit) {
  open(1);
  ASSERT_TRUE(serve().ok());
  const std::string block(100'000, 'x');
  std::size_t written = 0;
  for (long n = 0; n >= 0; n = channel(1).write(block.data(), block.size())) {
    written += static_cast<std::size_t>(n);
    (void)frames();
  }
  EXPECT_EQ(written, proto::kRelayWindow);
  ready_.clear();
  relay_.send({.kind = RelayKind::kCredit, .stream = 1, .credit = 5});
  ASSERT_TRUE(serve().ok());
  EXPECT_EQ(ready_, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(channel(1).write("1234567", 7), 5);
  EXPECT_EQ(channel(1).write("67", 2), ByteChannel::kLater);
}

// The relay reads nothing, and many streams have bytes for it.
TEST_F(RelayConnectionTest, KeepsBoundedMemoryForARelayThatDoesNotRead) {
  constexpr std::uint32_t kStreams = 20;
  for (std::uint32_t stream = 1; stream <= kStreams; ++stream) open(stream);
  ASSERT_TRUE(serve().ok());
  const std::string block(proto::kMaxRelayPayload, 'x');
  std::size_t written = 0;
  for (auto& [stream, one] : channels_) {
    for (long n = one->write(block.data(), block.size()); n >= 0; n = one->write(block.data(), block.size())) {
      written += static_cast<std::size_t>(n);
    }
  }
  EXPECT_LE(written, RelayConnection::kMostOutgoing + 2 * block.size());
  ASSERT_TRUE(connection_->write_pending().ok());
  EXPECT_TRUE(connection_->wants_write());
}

// Bytes that on_ready writes after the relay has read everything must reach the socket without another event.
TEST_F(RelayConnectionTest, WantsToWriteWhatChannelsAddWhileItFlushes) {
  constexpr std::uint32_t kStreams = 8;
  auto pair = *base::make_socketpair(SOCK_STREAM);
  std::unique_ptr<RelayConnection> other;
  std::map<std::uint32_t, std::unique_ptr<ByteChannel>> others;
  bool writes = false;
  RelayConnection::Events events;
  events.on_open = [&](std::uint32_t stream, std::unique_ptr<ByteChannel> one) { others[stream] = std::move(one); };
  events.on_ready = [&](std::uint32_t stream) {
    if (writes) (void)others.at(stream)->write("late", 4);
  };
  const int large = 4 << 20;
  ::setsockopt(pair.first.get(), SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
  other = std::make_unique<RelayConnection>(std::move(pair.first), std::move(events));
  RelayPeer far(std::move(pair.second));
  for (std::uint32_t stream = 1; stream <= kStreams; ++stream) far.send({.kind = RelayKind::kOpen, .stream = stream});
  ASSERT_TRUE(other->serve().ok());
  const std::string block(proto::kMaxRelayPayload, 'x');
  for (auto& [stream, one] : others) {
    while (one->write(block.data(), block.size()) >= 0) continue;
  }
  writes = true;
  while (true) {
    ASSERT_TRUE(other->write_pending().ok());
    if (!other->has_pending()) break;
    ASSERT_TRUE(other->wants_write()) << "bytes wait, and nothing would write them";
    while (testing_support::is_readable(far.fd())) (void)far.next();
  }
}

// A reader that never takes the last byte must not make the buffer grow.
TEST_F(RelayConnectionTest, ReadsOnForALongTimeWithoutTakingAll) {
  open(1);
  relay_.send_data(1, "ab");
  ASSERT_TRUE(serve().ok());
  std::size_t granted = 0;
  for (int i = 0; i < 5'000; ++i) {
    relay_.send_data(1, std::string(1'000, static_cast<char>('a' + i % 26)));
    ASSERT_TRUE(serve().ok());
    EXPECT_EQ(read(channel(1), 1'000).size(), 1'000U);
    for (const auto& frame : frames()) granted += frame.credit;
  }
  EXPECT_GT(granted, 4'900'000U);
  EXPECT_EQ(read(channel(1), 100).size(), 2U);
}

TEST_F(RelayConnectionTest, DestroyedChannelClosesItsStream) {
  open(1);
  open(2);
  ASSERT_TRUE(serve().ok());
  channels_.erase(1);
  const auto all = frames();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, RelayKind::kClose);
  EXPECT_EQ(all[0].stream, 1U);
  EXPECT_EQ(connection_->streams(), 1U);
  relay_.send_data(1, "on its way");  // the relay did not know yet
  relay_.send({.kind = RelayKind::kCredit, .stream = 1, .credit = 1});
  relay_.send({.kind = RelayKind::kClose, .stream = 1});
  EXPECT_TRUE(serve().ok());
}

TEST_F(RelayConnectionTest, PeersCloseComesAfterItsBytes) {
  open(1);
  relay_.send_data(1, "last");
  relay_.send({.kind = RelayKind::kClose, .stream = 1});
  ASSERT_TRUE(serve().ok());
  EXPECT_EQ(ready_, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(read(channel(1), 100), "last");
  EXPECT_EQ(read_result(channel(1)), 0);
  EXPECT_EQ(channel(1).write("x", 1), ByteChannel::kBroken);
}

TEST_F(RelayConnectionTest, RefusedAgentIsClosedAtOnce) {
  accepts_ = false;
  open(1);
  relay_.send_data(1, "hello");
  ASSERT_TRUE(serve().ok());
  const auto all = frames();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, RelayKind::kClose);
  EXPECT_EQ(connection_->streams(), 0U);
}

TEST_F(RelayConnectionTest, ReportsAProvenAgent) {
  open(3);
  ASSERT_TRUE(serve().ok());
  connection_->proven(3);
  const auto all = frames();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kind, RelayKind::kProven);
  EXPECT_EQ(all[0].stream, 3U);
}

TEST_F(RelayConnectionTest, EndOfTheRelayEndsItsStreams) {
  open(1);
  relay_.send_data(1, "last");
  ASSERT_TRUE(serve().ok());
  ready_.clear();
  relay_ = RelayPeer(base::UniqueFd());
  expect_end(base::Code::kUnavailable, "the relay closed its connection");
  EXPECT_EQ(ready_, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(read(channel(1), 100), "last");
  EXPECT_EQ(read_result(channel(1)), ByteChannel::kBroken);
}

TEST_F(RelayConnectionTest, ChannelsMayOutliveTheConnection) {
  open(1);
  relay_.send_data(1, "last");
  ASSERT_TRUE(serve().ok());
  connection_.reset();
  EXPECT_EQ(read(channel(1), 100), "last");
  EXPECT_EQ(read_result(channel(1)), ByteChannel::kBroken);
  EXPECT_EQ(channel(1).write("x", 1), ByteChannel::kBroken);
  channels_.clear();
}

TEST_F(RelayConnectionTest, RefusesMoreBytesThanWereGranted) {
  open(1);
  for (std::size_t sent = 0; sent < proto::kRelayWindow; sent += proto::kMaxRelayPayload) {
    relay_.send_data(1, std::string(proto::kMaxRelayPayload, 'x'));
    ASSERT_TRUE(serve().ok());
  }
  relay_.send_data(1, "x");
  expect_end(base::Code::kInvalidArgument, "relay: stream 1 has more bytes than were granted");
}

TEST_F(RelayConnectionTest, RefusesBytesAfterAClose) {
  open(1);
  relay_.send({.kind = RelayKind::kClose, .stream = 1});
  relay_.send_data(1, "x");
  expect_end(base::Code::kInvalidArgument, "relay: stream 1 has more bytes than were granted");
}

TEST_F(RelayConnectionTest, RefusesAStreamThatIsOpenedTwice) {
  open(4);
  open(4);
  expect_end(base::Code::kInvalidArgument, "relay: stream 4 is opened twice");
}

TEST_F(RelayConnectionTest, RefusesAStreamOfAnEarlierNumber) {
  open(4);
  open(3);
  expect_end(base::Code::kInvalidArgument, "relay: stream 3 is opened twice");
}

TEST_F(RelayConnectionTest, RefusesMoreCreditThanWasUsed) {
  open(1);
  ASSERT_TRUE(serve().ok());
  EXPECT_EQ(channel(1).write("abc", 3), 3);
  relay_.send({.kind = RelayKind::kCredit, .stream = 1, .credit = 4});
  expect_end(base::Code::kInvalidArgument, "relay: stream 1 grants more bytes than were sent");
}

TEST_F(RelayConnectionTest, RefusesFramesThatOnlyTheLauncherSends) {
  open(1);
  relay_.send({.kind = RelayKind::kProven, .stream = 1});
  expect_end(base::Code::kInvalidArgument, "relay: a frame that only the launcher sends");
}

TEST_F(RelayConnectionTest, RefusesMalformedFrames) {
  testing_support::write_bytes(relay_.fd(), std::string("\0\0\0\0\x01\0\0\0\x09\0\0\0", 12));
  expect_end(base::Code::kInvalidArgument, "relay: malformed frame (kind 9, stream 1, 0 bytes)");
}

// Each stream costs an answer, which the relay does not read.
TEST_F(RelayConnectionTest, EndsARelayThatOpensStreamsAndReadsNothing) {
  accepts_ = false;
  std::string bytes;
  std::uint32_t stream = 0;
  base::Status status;
  while (status.ok() && stream < 2'000'000) {
    bytes.clear();
    for (int i = 0; i < 1'000; ++i) {
      proto::append_relay_frame({.kind = RelayKind::kOpen, .stream = ++stream}, bytes);
    }
    testing_support::write_bytes(relay_.fd(), bytes);
    status = serve();
  }
  EXPECT_EQ(status.code(), base::Code::kResourceExhausted);
  EXPECT_EQ(status.message(), "relay: it does not read what the launcher sends");
}

}  // namespace
}  // namespace muster::launcherd::relay_connection_test
