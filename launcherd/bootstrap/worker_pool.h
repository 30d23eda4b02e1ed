// WorkerPool runs the blocking part of a bootstrap on at most `max_threads` threads. It starts a thread when a task
// comes. A thread ends when no task is left.
// Owner: the destructor joins the threads. The owner must first cancel the tasks through their Waiter, so that they
// end soon.
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

  // Any thread. Tasks begin in order. RESOURCE_EXHAUSTED if no thread can be started; the task then never runs.
  base::Status post(std::function<void()> task);

 private:
  void run(std::size_t slot);

  const int max_threads_;
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, like all members below
  std::vector<std::thread> threads_;         // by slot; a joinable thread runs or is in finished_
  std::vector<std::size_t> finished_;        // slots whose thread is about to return
  int running_ = 0;
};

}  // namespace muster::launcherd::bootstrap
