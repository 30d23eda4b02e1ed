#include "launcherd/bootstrap/worker_pool.h"

#include <pthread.h>

#include <utility>

#include "base/thread.h"

namespace muster::launcherd::inline bootstrap {

WorkerPool::~WorkerPool() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
    finished_.clear();
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

base::Status WorkerPool::post(std::function<void()> task) {
  std::thread to_join;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (running_ >= max_threads_) return base::ok_status();
    const std::size_t slot = finished_.empty() ? threads_.size() : finished_.back();
    auto thread = base::start_thread([this, slot] { run(slot); });
    if (!thread.ok()) {
      if (running_ > 0) return base::ok_status();  // a running thread will take the task
      tasks_.pop_back();
      return thread.status();
    }
    ++running_;
    if (finished_.empty()) {
      threads_.push_back(std::move(*thread));
    } else {
      finished_.pop_back();
      to_join = std::exchange(threads_[slot], std::move(*thread));
    }
  }
  if (to_join.joinable()) to_join.join();  // that thread holds no lock and is about to return
  return base::ok_status();
}

void WorkerPool::run(std::size_t slot) {
  ::pthread_setname_np(::pthread_self(), "boot-host");
  for (;;) {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) {
        --running_;
        finished_.push_back(slot);
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace muster::launcherd::bootstrap
