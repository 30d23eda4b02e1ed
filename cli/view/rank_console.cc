#include "cli/view/rank_console.h"

#include <algorithm>
#include <numeric>

namespace muster::cli::inline view {
namespace {

// Returns whether the stream that goes to `terminal` is folded.
bool is_folded(Fold fold, const model::LabelFormat& label, const launcherd::Terminal& terminal) {
  if (fold != Fold::kAuto) return fold != Fold::kOff;
  return terminal.is_tty() && label.has_rank();
}

}  // namespace

base::Result<std::unique_ptr<RankConsole>> RankConsole::open(launcherd::Terminals& terminals, const base::Clock& clock,
                                                             const launcherd::ConsoleSinkOptions& options, Fold fold) {
  std::unique_ptr<RankConsole> made(new RankConsole(terminals, clock, options));
  launcherd::FoldSink::Config config;
  config.folds = {is_folded(fold, options.label, *terminals.out()), is_folded(fold, options.label, *terminals.err())};
  config.raw_rank = options.raw_rank;
  config.options.ignores_numbers = fold == Fold::kNumbers;
  if (!config.folds[0] && !config.folds[1]) return made;
  MUSTER_ASSIGN_OR_RETURN(made->fold_, launcherd::FoldSink::create(&made->console_, &clock, config));
  return made;
}

void RankConsole::set_ranks(const std::vector<int>& ranks) {
  if (fold_ != nullptr) fold_->set_ranks(ranks);
}

bool RankConsole::finish_blocking(base::MonotonicTime deadline) {
  return fold_ == nullptr || fold_->finish_blocking(deadline);
}

std::vector<int> first_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(std::max(size, 0)));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace muster::cli::view
