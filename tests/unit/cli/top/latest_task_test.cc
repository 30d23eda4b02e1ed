#include "cli/top/latest_task.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace muster::cli::latest_task_test {
namespace {

TEST(LatestTask, RunsOnlyTheNewestOfThoseThatWait) {
  LatestTask tasks;
  ASSERT_TRUE(tasks.start().ok());
  std::promise<void> has_begun;
  std::promise<void> may_end;
  std::promise<int> last;
  std::atomic<bool> has_run_older = false;
  tasks.run([&] {
    has_begun.set_value();
    may_end.get_future().wait();
  });
  has_begun.get_future().wait();
  tasks.run([&] { has_run_older = true; });
  tasks.run([&] { last.set_value(2); });
  may_end.set_value();
  EXPECT_EQ(last.get_future().get(), 2);
  EXPECT_FALSE(has_run_older);
}

TEST(LatestTask, EndsWithoutEverStarting) {
  std::atomic<bool> has_run = false;
  {
    LatestTask tasks;
    tasks.run([&] { has_run = true; });
  }
  EXPECT_FALSE(has_run);
}

}  // namespace
}  // namespace muster::cli::latest_task_test
