#include "agent/relay/relay_uplink.h"

#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::agent::relay_uplink_test {
namespace {

using proto::RelayKind;
using testing_support::read_bytes;
using testing_support::write_bytes;
using namespace std::chrono_literals;

class RelayUplinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    listening_ = *base::listen_any(0, 4);
    uplink_ = std::make_unique<RelayUplink>(*base::IpAddress::parse("127.0.0.1"), *base::local_port(listening_.get()));
  }
  static bool is_writable(int fd) {
    pollfd writable{fd, POLLOUT, 0};
    return ::poll(&writable, 1, 20'000) == 1;
  }
  void come_up() {
    ASSERT_TRUE(uplink_->connect(base::monotonic_now()).ok());
    EXPECT_EQ(uplink_->phase(), RelayUplink::Phase::kConnecting);
    launcher_ = testing_support::accept_here(listening_.get());
    ASSERT_TRUE(is_writable(uplink_->fd()));
    ASSERT_TRUE(uplink_->connected().ok());
    EXPECT_EQ(uplink_->phase(), RelayUplink::Phase::kUp);
    EXPECT_EQ(read_bytes(launcher_.get(), proto::kRelayHello.size()), proto::kRelayHello);
  }
  // Reads until `frames_` has so many.
  base::Status read(std::size_t frames) {
    while (frames_.size() < frames) {
      pollfd readable{uplink_->fd(), POLLIN, 0};
      if (::poll(&readable, 1, 20'000) != 1) return base::unavailable("nothing came");
      MUSTER_RETURN_IF_ERROR(uplink_->read_some([this](const proto::RelayFrame& frame) {
        frames_.push_back(
            fmt::format("{} {} {} {}", static_cast<int>(frame.kind), frame.stream, frame.credit, frame.payload));
        return base::ok_status();
      }));
    }
    return base::ok_status();
  }

  base::UniqueFd listening_;
  base::UniqueFd launcher_;
  std::unique_ptr<RelayUplink> uplink_;
  std::vector<std::string> frames_;
};

TEST_F(RelayUplinkTest, ReadsFramesInAnyPieces) {
  come_up();
  std::string bytes;
  proto::append_relay_frame({.kind = RelayKind::kData, .stream = 4, .payload = "hello"}, bytes);
  proto::append_relay_frame({.kind = RelayKind::kCredit, .stream = 4, .credit = 77}, bytes);
  proto::append_relay_frame({.kind = RelayKind::kClose, .stream = 4}, bytes);
  for (const char byte : bytes) {
    write_bytes(launcher_.get(), std::string(1, byte));
    pollfd readable{uplink_->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
    ASSERT_TRUE(uplink_
                    ->read_some([this](const proto::RelayFrame& frame) {
                      frames_.push_back(fmt::format("{} {} {} {}", static_cast<int>(frame.kind), frame.stream,
                                                    frame.credit, frame.payload));
                      return base::ok_status();
                    })
                    .ok());
  }
  EXPECT_EQ(frames_, (std::vector<std::string>{"2 4 0 hello", "3 4 77 ", "4 4 0 "}));
}

TEST_F(RelayUplinkTest, WritesWhatTheLauncherAccepts) {
  come_up();
  const std::size_t size = std::size_t{8} << 20;
  uplink_->outgoing = std::string(size, 'x');
  EXPECT_TRUE(uplink_->is_full());
  ASSERT_TRUE(uplink_->write_some().ok());
  EXPECT_TRUE(uplink_->wants_write());
  std::size_t got = 0;
  while (got < size) {
    const std::size_t now = read_bytes(launcher_.get(), std::min<std::size_t>(size - got, 65'536)).size();
    ASSERT_GT(now, 0U);
    got += now;
    ASSERT_TRUE(uplink_->write_some().ok());
  }
  EXPECT_FALSE(uplink_->wants_write());
  EXPECT_FALSE(uplink_->is_full());
}

TEST_F(RelayUplinkTest, EndsWithTheLauncherAndWithBadBytes) {
  come_up();
  write_bytes(launcher_.get(), std::string(12, '\xff'));
  EXPECT_EQ(read(1).code(), base::Code::kInvalidArgument);
  uplink_->lost(base::monotonic_now());
  come_up();
  launcher_.reset();
  EXPECT_EQ(read(1).code(), base::Code::kUnavailable);
}

TEST_F(RelayUplinkTest, PausesLongerAfterEachFailure) {
  base::MonotonicTime now = base::monotonic_now();
  std::vector<base::Duration> pauses;
  for (int i = 0; i < 6; ++i) {
    uplink_->lost(now);
    EXPECT_EQ(uplink_->phase(), RelayUplink::Phase::kDown);
    pauses.push_back(uplink_->again() - now);
  }
  EXPECT_EQ(pauses, (std::vector<base::Duration>{50ms, 100ms, 200ms, 400ms, 500ms, 500ms}));
  come_up();
  uplink_->lost(now);
  EXPECT_EQ(uplink_->again() - now, 50ms);
}

TEST_F(RelayUplinkTest, ForgetsTheLastConnection) {
  come_up();
  EXPECT_EQ(uplink_->next_stream(), 1U);
  EXPECT_EQ(uplink_->next_stream(), 2U);
  uplink_->outgoing = "not sent";
  uplink_->lost(base::monotonic_now());
  EXPECT_TRUE(uplink_->outgoing.empty());
  come_up();
  EXPECT_EQ(uplink_->next_stream(), 1U);
  EXPECT_TRUE(uplink_->outgoing.empty());
}

TEST_F(RelayUplinkTest, NobodyListensIsAnError) {
  listening_.reset();
  base::Status status = uplink_->connect(base::monotonic_now());
  if (status.ok() && is_writable(uplink_->fd())) status = uplink_->connected();
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace muster::agent::relay_uplink_test
