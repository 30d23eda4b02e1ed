#include "collectives/engine/stall_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "collectives/call/notice.h"

namespace muster::collectives::inline engine {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kNamesReported = 6;
constexpr milliseconds kLongestIdle{10'000};
constexpr milliseconds kShortestIdle{50};

}  // namespace

milliseconds idle_time(const StallSettings& settings) {
  if (!settings.is_checked) return kLongestIdle;
  milliseconds first = settings.warning;
  if (settings.shutdown.count() > 0) first = std::min(first, settings.shutdown);
  return std::clamp(first / 4, kShortestIdle, kLongestIdle);
}

StallReport::Verdict StallReport::check(const std::vector<Negotiation::Late>& late, base::MonotonicTime now,
                                        const std::function<std::string(int)>& name_of_rank) {
  std::map<std::string, Seen> still;
  Verdict verdict;
  std::vector<std::string> lines;
  for (const Negotiation::Late& one : late) {
    const auto found = seen_.find(one.name);
    Seen seen = found == seen_.end() ? Seen{now, now} : found->second;
    const auto waited = now - seen.since;
    std::vector<std::string> ranks;
    for (const int rank : one.missing) ranks.push_back(name_of_rank(rank));
    const std::string line = fmt::format("'{}' for {} s, not submitted by rank{} {}", one.name,
                                         std::chrono::duration_cast<std::chrono::seconds>(waited).count(),
                                         ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
    if (waited >= settings_.warning && (seen.reported == seen.since || now - seen.reported >= settings_.warning)) {
      lines.push_back(line);
      seen.reported = now;
    }
    if (settings_.shutdown.count() > 0 && waited >= settings_.shutdown && verdict.shutdown.empty()) {
      verdict.shutdown = fmt::format(
          "a tensor waits for ranks that have not submitted it, longer than "
          "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS allows: {}",
          line);
    }
    still.emplace(one.name, seen);
  }
  seen_ = std::move(still);
  if (lines.empty()) return verdict;
  const std::size_t more = lines.size() > kNamesReported ? lines.size() - kNamesReported : 0;
  lines.resize(lines.size() - more);
  verdict.warning = fmt::format("tensors wait for ranks that have not submitted them: {}{}", fmt::join(lines, "; "),
                                more > 0 ? fmt::format("; and {} more", more) : "");
  return verdict;
}

base::Result<std::unique_ptr<StallWatch>> StallWatch::start(StallSettings settings, Engine engine) {
  std::unique_ptr<StallWatch> made(new StallWatch(settings, std::move(engine)));
  try {
    made->thread_ = std::thread([watch = made.get()] { watch->run(); });
  } catch (const std::system_error& problem) {
    return base::resource_exhausted("cannot start the thread that watches for stalls: {}", problem.what());
  }
  return made;
}

StallWatch::StallWatch(StallSettings settings, Engine engine)
    : settings_(settings), engine_(std::move(engine)), report_(settings) {}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ending_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void StallWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, idle_time(settings_), [this] { return is_ending_; })) {
    lock.unlock();
    const StallReport::Verdict verdict =
        report_.check(engine_.late(), std::chrono::steady_clock::now(), engine_.name_of_rank);
    if (!verdict.warning.empty() && engine_.reports && settings_.is_reported) print_notice(verdict.warning);
    if (!verdict.shutdown.empty()) engine_.end(verdict.shutdown);
    lock.lock();
  }
}

}  // namespace muster::collectives::engine
