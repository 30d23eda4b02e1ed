// The signals of a foreground launcher, as events on the loop: nothing runs in a signal handler.
//
// Construct before any thread exists (it blocks the signals for all of them), destroy after the loop has ended. What
// was ignored at the start stays ignored (nohup, shells without job control).
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

  // `on_signal` on the loop thread, once a signal.
  void watch(base::Loop& loop, std::function<void(int signo)> on_signal);

 private:
  explicit Signals(base::UniqueFd fd) : fd_(std::move(fd)) {}

  base::UniqueFd fd_;
  base::Timer watch_;
};

}  // namespace muster::cli::view
