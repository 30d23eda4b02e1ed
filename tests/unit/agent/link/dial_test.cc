#include "agent/link/dial.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

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
  listening->reset();  // now no process listens there
  const auto dialled = dial_first({address("127.0.0.1"), address("::1")}, port, in(seconds(10)), -1);
  ASSERT_FALSE(dialled.ok());
  EXPECT_NE(dialled.status().message().find("127.0.0.1:"), std::string::npos) << dialled.status();
  EXPECT_NE(dialled.status().message().find("[::1]:"), std::string::npos) << dialled.status();
  EXPECT_FALSE(dial_first({}, port, in(seconds(10)), -1).ok());
}

// A queue that is full drops the first SYN, as a lossy network does. The kernel would send it again after 1, 3 and 7 s.
TEST(Dial, ConnectsAnewWhenTheFirstPacketIsLost) {
  auto listening = base::listen_any(0, 0);
  ASSERT_TRUE(listening.ok());
  const auto port = *base::local_port(listening->get());
  std::vector<Dialled> filling;
  for (int i = 0; i < 2; ++i) {  // a backlog of 0 holds one connection, and the kernel accepts a second one
    auto one = dial_first({address("127.0.0.1")}, port, in(std::chrono::milliseconds(500)), -1);
    if (one.ok()) filling.push_back(std::move(*one));
  }
  ASSERT_FALSE(filling.empty());
  const base::UniqueFd drained(::eventfd(0, EFD_CLOEXEC));
  std::thread drain([&] {
    pollfd never{drained.get(), POLLIN, 0};
    (void)::poll(&never, 1, 3'200);  // longer than the kernel's second attempt
    for (std::size_t i = 0; i < filling.size() + 1; ++i) {
      const base::UniqueFd taken(::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
  });
  const auto before = std::chrono::steady_clock::now();
  const auto dialled = dial_first({address("127.0.0.1")}, port, in(seconds(20)), -1);
  EXPECT_TRUE(dialled.ok()) << dialled.status();
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(7)) << "the kernel's third try comes then";
  drain.join();
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
