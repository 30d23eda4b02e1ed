#include "launcherd/ssh/send_window.h"

#include <gtest/gtest.h>

namespace muster::launcherd::send_window_test {
namespace {

constexpr std::size_t kWhole = std::size_t{2} << 20;  // as sshd's

TEST(SendWindow, LimitsWhatIsUnread) {
  SendWindow window;
  EXPECT_EQ(window.allowed(kWhole), SendWindow::kLeast);
  EXPECT_EQ(window.allowed(kWhole - SendWindow::kLeast + 1), 1U);
  EXPECT_EQ(window.allowed(kWhole - SendWindow::kLeast), 0U);
  EXPECT_EQ(window.allowed(kWhole - SendWindow::kLeast - 1), 0U);
  EXPECT_EQ(window.allowed(kWhole), SendWindow::kLeast);
}

TEST(SendWindow, ASmallWindowIsTheLimit) {
  SendWindow window;
  EXPECT_EQ(window.allowed(100), 100U);
  EXPECT_EQ(window.allowed(1), 1U);
  EXPECT_EQ(window.allowed(0), 0U);
}

TEST(SendWindow, AHostThatReadsNothingGetsTheWholeWindowAtLast) {
  SendWindow window;
  std::size_t left = kWhole;
  int times = 0;
  for (; left > 0; ++times) {
    left -= window.allowed(left);
    window.widen();
  }
  EXPECT_EQ(times, 4);
}

}  // namespace
}  // namespace muster::launcherd::send_window_test
