#include "launcherd/bootstrap/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace muster::launcherd::worker_pool_test {
namespace {

TEST(WorkerPoolTest, RunsEverythingWithAtMostSoManyThreads) {
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> done = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 200; ++i) {
      const base::Status posted = pool.post([&] {
        const int now = ++running;
        int seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        --running;
        ++done;
      });
      ASSERT_TRUE(posted.ok());
    }
  }
  EXPECT_EQ(done, 200);
  EXPECT_LE(most, 3);
}

TEST(WorkerPoolTest, TasksOfDifferentThreadsOverlap) {
  WorkerPool pool(2);
  std::promise<void> first;
  std::promise<void> second;
  std::promise<void> ended;
  const base::Status one = pool.post([&] {
    first.set_value();
    second.get_future().wait();
    ended.set_value();
  });
  const base::Status other = pool.post([&] {
    first.get_future().wait();
    second.set_value();
  });
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(WorkerPoolTest, ThreadsComeBackAfterIdleness) {
  WorkerPool pool(2);
  for (int i = 0; i < 50; ++i) {
    std::promise<void> done;
    ASSERT_TRUE(pool.post([&] { done.set_value(); }).ok());
    done.get_future().wait();
  }
}

}  // namespace
}  // namespace muster::launcherd::worker_pool_test
