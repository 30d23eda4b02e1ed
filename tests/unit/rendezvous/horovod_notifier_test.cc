// The notifier against a played worker on 127.0.0.1.
#include "rendezvous/horovod_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "rendezvous/horovod_notice.h"
#include "tests/unit/rendezvous/base64.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::horovod_notifier_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kKey(32, 'k');

// Returns what a worker publishes if its service listens at `port`.
std::string published(std::uint16_t port) {
  std::string pickle("\x80\x05}\x8c\x02lo]\x8c\x09", 10);
  pickle += "127.0.0.1M";
  pickle += static_cast<char>(port & 0xff);
  pickle += static_cast<char>(port >> 8);
  pickle +=
      "\x86"
      "asC\x20" +
      kKey + "\x86.";
  return to_base64(pickle);
}

class HorovodNotifierTest : public ::testing::Test {
 protected:
  HorovodNotifierTest() {
    listening_ = base::listen_any(0, 8).value();
    port_ = base::local_port(listening_.get()).value();
    (void)base::set_nonblocking(listening_.get(), true);
    accepting_ = loop_.on_readable(listening_.get(), [this] { accept(); });
  }
  void notify(std::string_view address) {
    notifier_->notify(address, 1000, 3, [this](base::Status status) { result_ = std::move(status); });
  }
  bool ended() {
    return run_until(
        loop_, [this] { return result_.has_value(); }, 5s);
  }
  void accept() {
    worker_ = base::UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    reading_ = loop_.on_readable(worker_.get(), [this] { read(); });
  }
  void read() {
    char bytes[4096];
    const ssize_t count = ::recv(worker_.get(), bytes, sizeof bytes, 0);
    if (count <= 0) return reading_.cancel();
    received_.append(bytes, static_cast<std::size_t>(count));
    if (received_.size() < expected_.size()) return;
    if (!reply_) return;
    ::send(worker_.get(), reply_->data(), reply_->size(), MSG_NOSIGNAL);
    if (closes_) {
      reading_.cancel();
      worker_.reset();
    }
  }

  base::Loop loop_;
  base::UniqueFd listening_;
  base::UniqueFd worker_;
  std::uint16_t port_ = 0;
  const std::string expected_ = horovod_notice_frame(kKey, horovod_notice_body(1000, 3));
  std::optional<std::string> reply_ = horovod_notice_frame(kKey, "any pickle");
  bool closes_ = false;
  std::string received_;
  base::Timer accepting_;
  base::Timer reading_;
  std::optional<base::Status> result_;
  std::unique_ptr<HorovodNotifier> notifier_ = std::make_unique<HorovodNotifier>(loop_, 300ms);
};

TEST_F(HorovodNotifierTest, SendsTheNoticeAndChecksTheReply) {
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_TRUE(result_->ok()) << *result_;
  EXPECT_EQ(received_, expected_);
}

TEST_F(HorovodNotifierTest, ForeignKeyIsNoConfirmation) {
  reply_ = horovod_notice_frame("another key", "any pickle");
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_EQ(result_->code(), base::Code::kPermissionDenied);
}

TEST_F(HorovodNotifierTest, HugeReplyIsRefused) {
  reply_ = std::string(36, '\x7f');
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_EQ(result_->code(), base::Code::kInvalidArgument);
}

TEST_F(HorovodNotifierTest, ShortReplyIsAFailure) {
  reply_ = reply_->substr(0, 40);
  closes_ = true;
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_EQ(result_->code(), base::Code::kUnavailable);
}

TEST_F(HorovodNotifierTest, SilentWorkerCostsTheTimeLimit) {
  reply_.reset();
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_EQ(result_->code(), base::Code::kDeadlineExceeded);
}

TEST_F(HorovodNotifierTest, NobodyListens) {
  accepting_.cancel();
  listening_.reset();
  notify(published(port_));
  ASSERT_TRUE(ended());
  EXPECT_EQ(result_->code(), base::Code::kUnavailable);
}

TEST_F(HorovodNotifierTest, BadAddressIsReportedFromTheLoop) {
  notify("nonsense");
  EXPECT_FALSE(result_.has_value());
  ASSERT_TRUE(ended());
  EXPECT_THAT(result_->message(), HasSubstr("worker address"));
}

TEST_F(HorovodNotifierTest, DestructionEndsNoticesSilently) {
  reply_.reset();
  notify(published(port_));
  notify("nonsense");
  notifier_.reset();
  run_for(loop_, 400ms);
  EXPECT_FALSE(result_.has_value());
}

}  // namespace
}  // namespace muster::rendezvous::horovod_notifier_test
