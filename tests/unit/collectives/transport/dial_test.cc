#include "collectives/transport/dial.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <thread>

namespace muster::collectives::dial_test {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const std::string kSecret(32, 's');
constexpr std::chrono::seconds kLong{30};

class DialTest : public testing::Test {
 protected:
  // Loopback, at the listener's port.
  base::Result<Handshake> call(base::MonotonicTime end, const AbortRecord* abort = nullptr,
                               const std::string& secret = kSecret) const {
    return dial(address_, port_, secret, {LinkRequest::Purpose::kLink, 1, 0, "world"}, end, abort);
  }
  // Answers one call.
  void answer() {
    pollfd wanted{listener_.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wanted, 1, 30'000), 1);
    Handshake handshake = Handshake::answer(
        base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), kSecret, 0);
    while (true) {
      const auto turn = handshake.step();
      if (!turn.ok() || *turn == Handshake::Turn::kDone) return;
      pollfd next{handshake.fd(), static_cast<short>(*turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT), 0};
      ASSERT_EQ(poll(&next, 1, 30'000), 1);
    }
  }

  const base::IpAddress address_ = *base::IpAddress::parse("127.0.0.1");
  base::UniqueFd listener_ = *base::listen_on(address_, 0, 16);
  const std::uint16_t port_ = *base::local_port(listener_.get());
};

TEST_F(DialTest, WhoKnowsTheSecretIsReached) {
  std::thread answering([this] { answer(); });
  const auto called = call(steady_clock::now() + kLong);
  answering.join();
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_GE(called->fd(), 0);
}

TEST_F(DialTest, AnotherSecretIsRefused) {
  std::thread answering([this] { answer(); });
  const auto called = call(steady_clock::now() + kLong, nullptr, std::string(32, 't'));
  EXPECT_EQ(called.status().code(), Code::kUnauthenticated);
  answering.join();
}

TEST_F(DialTest, AClosedPortIsNamed) {
  listener_.reset();
  const auto called = call(steady_clock::now() + kLong);
  EXPECT_EQ(called.status().code(), Code::kUnavailable);
  EXPECT_EQ(called.status().message(), "connect to 127.0.0.1:" + std::to_string(port_) + ": Connection refused");
}

TEST_F(DialTest, WhoDoesNotAnswerIsLate) {
  const auto called = call(steady_clock::now() + milliseconds(30));
  EXPECT_EQ(called.status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(called.status().message(), "connect to 127.0.0.1:" + std::to_string(port_) + ": no answer");
}

TEST_F(DialTest, WhoClosesTheConnectionIsCalledAgain) {
  AbortRecord abort{};
  std::thread answering([this] {
    pollfd wanted{listener_.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wanted, 1, 30'000), 1);
    base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
    answer();
  });
  const auto end = steady_clock::now() + kLong;
  const auto called = dial_patiently([&] { return call(end, &abort); }, end, abort, [] { return false; });
  answering.join();
  EXPECT_TRUE(called.ok()) << called.status();
}

TEST_F(DialTest, WhoHasEndedIsNotCalledAgain) {
  listener_.reset();
  AbortRecord abort{};
  int asked = 0;
  const auto gone_at = [&](int when) {
    asked = 0;
    const auto end = steady_clock::now() + kLong;
    return dial_patiently([&] { return call(end, &abort); }, end, abort, [&asked, when] { return ++asked == when; });
  };
  EXPECT_EQ(gone_at(1).status().code(), Code::kUnavailable);
  EXPECT_EQ(asked, 1);
  // Nor is one that does not listen any more, for ever.
  EXPECT_EQ(gone_at(-1).status().code(), Code::kUnavailable);
  EXPECT_GE(asked, 3);
}

TEST_F(DialTest, AFailureElsewhereEndsTheWait) {
  AbortRecord abort{};
  std::thread failing([&] { abort.raise({Code::kUnavailable, 2, "n1", "rank 2 (n1) was killed"}); });
  const auto called = call(steady_clock::now() + kLong, &abort);
  failing.join();
  EXPECT_EQ(called.status().code(), Code::kUnavailable);
  EXPECT_EQ(called.status().message(), "rank 2 (n1) was killed");
}

}  // namespace
}  // namespace muster::collectives::dial_test
