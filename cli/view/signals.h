// Delivers the signals of a foreground launcher as events on the loop. No code runs in a signal handler.
// Thread: call block() before any other thread exists, because it blocks the signals for all of them. Destroy it after
// the loop has ended.
// Signals that were ignored at the start stay ignored (nohup, shells without job control).
#pragma once

#include <signal.h>

#include <functional>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline view {

class Signals {
 public:
  static base::Result<Signals> block(const std::vector<int>& signals);

  // Calls `on_signal` on the loop thread, once for each signal.
  void watch(base::Loop& loop, std::function<void(int signo)> on_signal);

 private:
  explicit Signals(base::UniqueFd fd) : fd_(std::move(fd)) {}

  base::UniqueFd fd_;
  base::Timer watch_;
};

}  // namespace muster::cli::view
