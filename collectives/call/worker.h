// Runs a communicator's asynchronous operations one after the other, in the order of submission. The thread starts with
// the first operation and sleeps between operations.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "collectives/call/request.h"

namespace muster::collectives::inline call {

class Worker {
 public:
  using Work = std::function<base::Status()>;

  Worker() = default;
  ~Worker() { finish(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread may call. The work and all that it holds are destroyed before its request is done. If no thread can be
  // started, the request fails with RESOURCE_EXHAUSTED.
  std::shared_ptr<Request> submit(Work work);
  // Runs the queued work, then ends the thread. Queued work fails at once if the communicator has ended.
  void finish();
  // Returns whether no work is queued or running.
  bool is_idle() const { return pending_.load(std::memory_order_acquire) == 0; }
  // Returns whether the caller is the worker's thread.
  bool is_current_thread() const { return running_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  struct Item {
    Work work;
    std::shared_ptr<Request> request;
  };
  void run();

  std::atomic<int> pending_{0};
  std::atomic<std::thread::id> running_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::collectives::call
