#include "base/disk_thread.h"

#include <future>

#include <gtest/gtest.h>

namespace muster::base::disk_thread_test {
namespace {

TEST(DiskThread, WorkInOrderAnswersOnTheLoop) {
  Loop loop;
  const auto disk = *DiskThread::start(loop);
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) {
    disk->add([&, i](const std::atomic<bool>&) -> Loop::Task {
      return [&, i] {
        seen.push_back(i);
        if (i == 2) loop.stop();
      };
    });
  }
  loop.run();
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
}

TEST(DiskThread, ItsEndStopsWhatIsUnderWay) {
  Loop loop;
  auto disk = *DiskThread::start(loop);
  std::promise<void> begun;
  disk->add([&](const std::atomic<bool>& stop) -> Loop::Task {
    begun.set_value();
    while (!stop) std::this_thread::yield();
    return [] { ADD_FAILURE() << "called after the end"; };
  });
  begun.get_future().wait();
  disk.reset();
}

// What hangs is left behind, and touches nothing that is gone when it comes back.
TEST(DiskThread, WhatHangsIsLeftBehind) {
  std::promise<void> begun;
  std::promise<void> server_is_back;
  std::promise<void> let_go;
  {
    Loop loop;
    auto disk = *DiskThread::start(loop, std::shared_ptr<void>(nullptr, [&](void*) { let_go.set_value(); }));
    disk->add([&](const std::atomic<bool>&) -> Loop::Task {
      begun.set_value();
      server_is_back.get_future().wait();
      return [] { ADD_FAILURE() << "called after the end"; };
    });
    begun.get_future().wait();
    disk.reset();
  }
  server_is_back.set_value();
  let_go.get_future().wait();
}

}  // namespace
}  // namespace muster::base::disk_thread_test
