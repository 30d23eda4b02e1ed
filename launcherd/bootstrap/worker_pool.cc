#include "launcherd/bootstrap/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace muster::launcherd {

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

void WorkerPool::post(std::function<void()> task) {
  std::thread to_join;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (running_ >= max_threads_) return;
    ++running_;
    std::size_t slot = threads_.size();
    if (finished_.empty()) {
      threads_.emplace_back();
    } else {
      slot = finished_.back();
      finished_.pop_back();
      to_join = std::exchange(threads_[slot], std::thread());
    }
    threads_[slot] = std::thread([this, slot] { run(slot); });
  }
  if (to_join.joinable()) to_join.join();  // it holds no lock and is on its last instructions
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

}  // namespace muster::launcherd
