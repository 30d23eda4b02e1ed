#include "agent/process/lease_page.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::lease_page_test {
namespace {

using namespace std::chrono_literals;

bool wakes(const LeasePage& page) {
  pollfd wanted{page.wake_fd(), POLLIN, 0};
  return ::poll(&wanted, 1, 0) > 0;
}

TEST(LeasePageTest, WakesOnlyWhenItMayEndEarlier) {
  auto page = LeasePage::create();
  ASSERT_TRUE(page.ok()) << page.status();
  const base::MonotonicTime now = std::chrono::steady_clock::now();
  EXPECT_FALSE(page->get().has_value());
  page->set(now + 1s);
  EXPECT_EQ(page->get(), now + 1s);
  EXPECT_TRUE(wakes(*page));
  page->drain_wake();
  page->set(now + 2s);
  EXPECT_FALSE(wakes(*page));
  page->set(now + 1s);
  EXPECT_TRUE(wakes(*page));
  page->drain_wake();
  page->set(std::nullopt);
  EXPECT_FALSE(wakes(*page));
  EXPECT_FALSE(page->get().has_value());
}

TEST(LeasePageTest, AForkedCopySeesWhatIsSetLater) {
  auto page = LeasePage::create();
  ASSERT_TRUE(page.ok()) << page.status();
  const base::MonotonicTime until = std::chrono::steady_clock::now() + 1s;
  const pid_t pid = ::fork();
  if (pid == 0) {
    pollfd wanted{page->wake_fd(), POLLIN, 0};
    ::poll(&wanted, 1, 10'000);
    ::_exit(page->get() == until ? 0 : 1);
  }
  page->set(until);
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace muster::agent::lease_page_test
