#include "agent/service/dial.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

namespace muster::agent::dial_test {
namespace {

using std::chrono::seconds;

base::MonotonicTime in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
base::IpAddress address(const char* text) {
  return *base::IpAddress::parse(text);
}

TEST(Dial, TheAddressThatAnswersWins) {
  auto listening = base::listen_any(0, 8);
  ASSERT_TRUE(listening.ok());
  const auto port = *base::local_port(listening->get());
  // 127.0.0.1 answers; 192.0.2.1 (for documentation) never does and is refused or unroutable here.
  auto dialled = dial_first({address("192.0.2.1"), address("127.0.0.1")}, port, in(seconds(10)), -1);
  ASSERT_TRUE(dialled.ok()) << dialled.status();
  EXPECT_EQ(dialled->address.str(), "127.0.0.1");
  EXPECT_TRUE(dialled->fd.valid());
}

TEST(Dial, EveryFailureIsNamed) {
  auto listening = base::listen_any(0, 8);
  const auto port = *base::local_port(listening->get());
  listening->reset();  // nobody listens there now
  const auto dialled = dial_first({address("127.0.0.1"), address("::1")}, port, in(seconds(10)), -1);
  ASSERT_FALSE(dialled.ok());
  EXPECT_NE(dialled.status().message().find("127.0.0.1:"), std::string::npos) << dialled.status();
  EXPECT_NE(dialled.status().message().find("[::1]:"), std::string::npos) << dialled.status();
  EXPECT_FALSE(dial_first({}, port, in(seconds(10)), -1).ok());
}

TEST(Dial, CancelledAtOnce) {
  const base::UniqueFd cancel(::eventfd(1, EFD_CLOEXEC));
  auto listening = base::listen_any(0, 8);
  const auto port = *base::local_port(listening->get());
  const auto dialled = dial_first({address("127.0.0.1")}, port, in(seconds(10)), cancel.get());
  EXPECT_EQ(dialled.status().code(), base::Code::kCancelled);
}

}  // namespace
}  // namespace muster::agent::dial_test
