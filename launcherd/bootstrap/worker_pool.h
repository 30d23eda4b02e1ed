// Threads for the blocking part of a bootstrap: at most `max_threads`, started when there is work, gone when there is
// none. The destructor joins them; tasks must end soon then (they are cancelled by their Waiter).
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

class WorkerPool {
 public:
  explicit WorkerPool(int max_threads) : max_threads_(max_threads) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Any thread; tasks begin in order. RESOURCE_EXHAUSTED: no thread can be had, the task will not run.
  base::Status post(std::function<void()> task);

 private:
  void run(std::size_t slot);

  const int max_threads_;
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as is all below
  std::vector<std::thread> threads_;         // by slot; joinable: running, or in finished_
  std::vector<std::size_t> finished_;        // slots whose thread is about to return
  int running_ = 0;
};

}  // namespace muster::launcherd::bootstrap
