#include "cli/top/latest_task.h"

#include <utility>

#include "base/thread.h"

namespace muster::cli::inline top {

LatestTask::~LatestTask() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

base::Status LatestTask::start() {
  MUSTER_ASSIGN_OR_RETURN(thread_, base::start_thread([this] { run_tasks(); }));
  return base::ok_status();
}

void LatestTask::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    next_ = std::move(task);
  }
  changed_.notify_one();
}

void LatestTask::run_tasks() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return next_ || is_ending_; });
      if (is_ending_) return;
      task = std::exchange(next_, nullptr);
    }
    task();
  }
}

}  // namespace muster::cli::top
