#include "launcherd/service/control_stream.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "proto/control_key.h"
#include "tests/unit/support/control_peer.h"

namespace muster::control_stream_test {
namespace {

using proto::ControlKind;
using testing_support::ControlPeer;

class ControlStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    base::FdPair pair = *base::make_socketpair(SOCK_STREAM);
    const auto tls = base::TlsContext::server({key()});
    stream_ = std::make_unique<launcherd::ControlStream>(base::TlsStream(*tls, std::move(pair.first)));
    peer_ = std::make_unique<ControlPeer>(std::move(pair.second), *base::TlsContext::client(key()));
  }
  ~ControlStreamTest() override {
    if (agent_.joinable()) agent_.join();
  }
  static base::TlsKey key() { return proto::control_key("abcdefgh", "token"); }
  // Plays the agent on a thread, after the handshake.
  void play(std::function<void(ControlPeer&)> speak) {
    agent_ = std::thread([this, speak = std::move(speak)] {
      ASSERT_TRUE(peer_->handshake());
      speak(*peer_);
    });
  }
  // Serves until the condition holds, or the stream ends.
  base::Status serve_until(const std::function<bool()>& is_done) {
    while (!is_done()) {
      const short writes = stream_->wants_write() ? POLLOUT : 0;
      pollfd ready{stream_->fd(), static_cast<short>(POLLIN | writes), 0};
      if (!stream_->has_more() && ::poll(&ready, 1, 20'000) != 1) return base::unavailable("nothing came");
      MUSTER_RETURN_IF_ERROR(stream_->serve([this](const proto::ControlFrame& frame) {
        frames_.emplace_back(frame.payload);
        if (frames_.size() == held_at_) stream_->is_held_back = true;
      }));
    }
    return base::ok_status();
  }

  std::unique_ptr<launcherd::ControlStream> stream_;
  std::unique_ptr<ControlPeer> peer_;
  std::thread agent_;
  std::vector<std::string> frames_;
  std::size_t held_at_ = 0;
};

TEST_F(ControlStreamTest, ProvesThePeerAndReadsItsFrames) {
  play([](ControlPeer& peer) {
    for (const char* text : {"one", "", "three"}) EXPECT_TRUE(peer.send_frame(ControlKind::kMessage, text));
  });
  EXPECT_FALSE(stream_->is_proven());
  EXPECT_EQ(stream_->identity(), "");
  ASSERT_TRUE(serve_until([this] { return frames_.size() == 3; }).ok());
  EXPECT_TRUE(stream_->is_proven());
  EXPECT_EQ(stream_->identity(), key().identity);
  EXPECT_EQ(frames_, (std::vector<std::string>{"one", "", "three"}));
}

TEST_F(ControlStreamTest, WritesWhatWasSentBeforeTheProof) {
  auto frame = std::make_shared<std::string>();
  proto::append_control_header(ControlKind::kMessage, 5, *frame);
  *frame += "hello";
  stream_->send(frame);
  ASSERT_TRUE(stream_->write_pending().ok());
  EXPECT_TRUE(stream_->has_unsent());
  std::string got;
  play([&](ControlPeer& peer) {
    got = peer.next()->payload;
    EXPECT_TRUE(peer.send_frame(ControlKind::kMessage, "done"));
  });
  ASSERT_TRUE(serve_until([this] { return !frames_.empty(); }).ok());
  agent_.join();
  EXPECT_EQ(got, "hello");
  EXPECT_FALSE(stream_->has_unsent());
}

TEST_F(ControlStreamTest, WritesManyFramesToASlowReader) {
  constexpr int kFrames = 200;
  for (int i = 0; i < kFrames; ++i) {
    auto frame = std::make_shared<std::string>();
    const std::string payload = std::to_string(i) + std::string(static_cast<std::size_t>(i) * 300, 'x');
    proto::append_control_header(ControlKind::kMessage, payload.size(), *frame);
    *frame += payload;
    stream_->send(frame);
  }
  int arrived = 0;
  play([&](ControlPeer& peer) {
    for (; arrived < kFrames; ++arrived) {
      const auto frame = peer.next();
      if (!frame) break;
      EXPECT_EQ(std::stoi(frame->payload), arrived);
      EXPECT_EQ(frame->payload.size(), std::to_string(arrived).size() + static_cast<std::size_t>(arrived) * 300);
    }
    EXPECT_TRUE(peer.send_frame(ControlKind::kMessage, "done"));
  });
  ASSERT_TRUE(serve_until([this] { return !frames_.empty(); }).ok());
  agent_.join();
  EXPECT_EQ(arrived, kFrames);
}

TEST_F(ControlStreamTest, ReadsNothingWhileItIsHeldBack) {
  const std::string block(16'000, 'x');
  held_at_ = 2;
  play([&](ControlPeer& peer) {
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(peer.send_frame(ControlKind::kMessage, block));
  });
  ASSERT_TRUE(serve_until([this] { return stream_->is_held_back; }).ok());
  agent_.join();
  const std::size_t before = frames_.size();
  EXPECT_LT(before, 8U);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream_->serve([](const proto::ControlFrame&) { ADD_FAILURE() << "it is held back"; }).ok());
  }
  stream_->is_held_back = false;
  held_at_ = 0;
  ASSERT_TRUE(stream_->serve([this](const proto::ControlFrame& frame) { frames_.emplace_back(frame.payload); }).ok());
  EXPECT_EQ(frames_.size(), 8U);
}

// Other streams have their turn.
TEST_F(ControlStreamTest, ReadsOneTurnAtATime) {
  std::string bytes;
  for (int i = 0; i < 64; ++i) {
    proto::append_control_header(ControlKind::kMessage, 16'000, bytes);
    bytes += std::string(16'000, 'x');
  }
  play([&](ControlPeer& peer) { EXPECT_TRUE(peer.send_bytes(bytes)); });
  std::size_t before = 0;
  ASSERT_TRUE(serve_until([&] {
                EXPECT_LE(frames_.size() - before, 20U) << "256 KiB and the rest of a record are a turn";
                before = frames_.size();
                return frames_.size() == 64;
              }).ok());
}

TEST_F(ControlStreamTest, EndsWithItsPeerAndWithMalformedFrames) {
  play([](ControlPeer& peer) { EXPECT_TRUE(peer.send_frame(static_cast<ControlKind>(9), "")); });
  EXPECT_EQ(serve_until([] { return false; }).code(), base::Code::kInvalidArgument);
  agent_.join();
  SetUp();
  play([this](ControlPeer&) { peer_.reset(); });
  EXPECT_EQ(serve_until([] { return false; }).code(), base::Code::kUnavailable);
}

}  // namespace
}  // namespace muster::control_stream_test
