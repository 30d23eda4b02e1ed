#include "launcherd/bootstrap/seed_board.h"

#include <cmath>

#include "base/ids.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr auto kLongestWait = std::chrono::seconds(5);  // for a seed; then the launcher sends the agent itself
constexpr auto kBoardGlance = std::chrono::milliseconds(50);
constexpr int kMostFailures = 2;
constexpr std::size_t kMostPeersOfASeed = 32;

}  // namespace

SeedBoard::SeedBoard() : token_(base::random_hex(32)) {}

void SeedBoard::expect(std::size_t hosts) {
  const std::lock_guard lock(mutex_);
  wanted_ = hosts <= kFewHosts ? 0 : static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(hosts))));
}

SeedBoard::Entry* SeedBoard::least_used() {
  Entry* best = nullptr;
  for (Entry& entry : seeds_) {
    if (entry.failures >= kMostFailures || entry.peers >= kMostPeersOfASeed) continue;
    if (best == nullptr || entry.peers < best->peers) best = &entry;
  }
  return best;
}

SeedBoard::Source SeedBoard::choose(bool may_be_seed, const Waiter& waiter) {
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  std::unique_lock lock(mutex_);
  while (wanted_ > 0 && waiter.check().ok() && std::chrono::steady_clock::now() < end) {
    if (may_be_seed && seeds_.size() + under_way_ < wanted_) {
      ++under_way_;
      return {.seed = {}, .becomes_seed = true};
    }
    if (Entry* const entry = least_used()) {
      ++entry->peers;
      return {.seed = entry->seed, .number = static_cast<std::size_t>(entry - seeds_.data())};
    }
    if (under_way_ == 0) break;  // no seed can come
    changed_.wait_for(lock, kBoardGlance);
  }
  return {};
}

void SeedBoard::succeed(const Source& source, std::optional<Seed> seed) {
  const std::lock_guard lock(mutex_);
  if (source.becomes_seed) {
    --under_way_;
    if (seed) seeds_.push_back({.seed = *std::move(seed)});
  }
  if (source.seed) {
    Entry& entry = seeds_[source.number];
    --entry.peers;
    entry.failures = 0;
  }
  changed_.notify_all();
}

void SeedBoard::fail(const Source& source) {
  const std::lock_guard lock(mutex_);
  if (source.becomes_seed) --under_way_;
  if (source.seed) {
    Entry& entry = seeds_[source.number];
    --entry.peers;
    ++entry.failures;
  }
  changed_.notify_all();
}

}  // namespace muster::launcherd::bootstrap
