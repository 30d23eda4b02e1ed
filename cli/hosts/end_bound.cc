#include "cli/hosts/end_bound.h"

#include <unistd.h>

#include <cstdio>

#include "base/thread.h"

namespace muster::cli::inline hosts {

void EndBound::arm(std::chrono::milliseconds bound, int exit_code) {
  auto thread = base::start_thread([this, bound, exit_code] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, bound, [this] { return is_over_; })) return;
    std::fflush(nullptr);
    ::_exit(exit_code);
  });
  if (thread.ok()) thread_ = std::move(*thread);
}

EndBound::~EndBound() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

}  // namespace muster::cli::hosts
