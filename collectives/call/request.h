// A collective that runs while its caller continues. It is finished once; any thread may wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "base/status.h"

namespace muster::collectives::inline call {

class Request {
 public:
  void finish(base::Status status) {
    {
      const std::lock_guard lock(mutex_);
      status_ = std::move(status);
    }
    done_.notify_all();
  }
  // Returns nullopt if the operation is not done yet.
  std::optional<base::Status> test() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  // Returns nullopt if the operation is not done within `time`. The operation then continues.
  std::optional<base::Status> wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, time, [this] { return status_.has_value(); });
    return status_;
  }
  base::Status wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::optional<base::Status> status_;
};

}  // namespace muster::collectives::call
