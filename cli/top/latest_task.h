// LatestTask runs tasks on a thread of its own, one after the other. If several come while one runs, only the newest of
// them runs.
//
// Thread: run() from any thread. The destructor waits for the running task; cancel what that waits for before.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/status.h"

namespace muster::cli::inline top {

class LatestTask {
 public:
  LatestTask() = default;
  ~LatestTask();
  LatestTask(const LatestTask&) = delete;
  LatestTask& operator=(const LatestTask&) = delete;

  // RESOURCE_EXHAUSTED: the system allows no thread.
  base::Status start();
  void run(std::function<void()> task);

 private:
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> next_;  // guarded by mutex_, like is_ending_
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace muster::cli::top
