// RankConsole shows the ranks' output on this process's terminals, with or without folded lines (--fold).
// Owner: the command that shows a job. It must outlive all who write to its sink; terminals and clock must outlive it.
// Thread: set_ranks() and finish_blocking(): any. The sink: one thread.
// Destruction: call finish_blocking() first, and cancel the terminals if it returns false.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/options/fold_option.h"
#include "launcherd/output/fold_sink.h"
#include "launcherd/output/sinks.h"
#include "launcherd/output/terminal.h"

namespace muster::cli::inline view {

class RankConsole {
 public:
  // RESOURCE_EXHAUSTED if a folding console cannot start its thread.
  static base::Result<std::unique_ptr<RankConsole>> open(launcherd::Terminals& terminals, const base::Clock& clock,
                                                         const launcherd::ConsoleSinkOptions& options, Fold fold);

  launcherd::OutputSink* sink() {
    return fold_ != nullptr ? static_cast<launcherd::OutputSink*>(fold_.get()) : &console_;
  }
  bool folds() const { return fold_ != nullptr; }

  // Sets the ranks that write. Lines of all of them are shown without delay. Empty means unknown.
  void set_ranks(const std::vector<int>& ranks);

  // Shows what waits. Returns false if a terminal does not take it before the deadline.
  bool finish_blocking(base::MonotonicTime deadline);

 private:
  RankConsole(launcherd::Terminals& terminals, const base::Clock& clock, const launcherd::ConsoleSinkOptions& options)
      : console_(terminals.out(), terminals.err(), &clock, options) {}

  launcherd::ConsoleSink console_;
  std::unique_ptr<launcherd::FoldSink> fold_;  // stands before console_; nullptr if nothing is folded
};

// Returns the ranks 0 to size - 1.
std::vector<int> first_ranks(int size);

}  // namespace muster::cli::view
