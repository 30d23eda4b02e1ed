#include "cli/view/step_meter.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "model/placement.h"

namespace muster::cli::inline view {
namespace {

std::int64_t bounded(std::uint64_t number) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

void StepMeter::add(const v1::ArrivalTimes& times, base::MonotonicTime now) {
  for (const v1::RankArrivals& report : times.ranks()) {
    if (report.rank() < 0 || report.rank() >= model::kMaxRanks) continue;
    const auto [found, is_new] = ranks_.try_emplace(report.rank());
    Rank& rank = found->second;
    has_beats_ = has_beats_ || report.beats() > 0;
    // Heartbeats are counted for the process. Their reports do not name the world.
    const int world = report.beats_only() ? rank.now.world : report.world();
    const bool is_same = is_new || world == rank.now.world || rank.now.world < 0;
    rank.now = {world, bounded(report.ended()), bounded(report.beats()), now};
    if (is_new || !is_same) rank.before = rank.now;
  }
}

// A process that has started again counts from 0.
std::optional<double> StepMeter::rate_of(const Rank& rank) const {
  const std::int64_t steps =
      has_beats_ ? rank.now.beats - rank.before.beats : rank.now.operations - rank.before.operations;
  const double seconds = std::chrono::duration<double>(rank.now.at - rank.before.at).count();
  if (steps < 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(steps) / seconds;
}

std::optional<double> StepMeter::take_rate() {
  std::vector<double> rates;
  for (auto& [number, rank] : ranks_) {
    if (const auto rate = rate_of(rank)) rates.push_back(*rate);
    rank.before = rank.now;
  }
  if (rates.empty()) return has_rate_ ? std::optional(0.0) : std::nullopt;
  has_rate_ = true;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

}  // namespace muster::cli::view
