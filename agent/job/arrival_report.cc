#include "agent/job/arrival_report.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace muster::agent::inline job {
namespace {

constexpr std::chrono::milliseconds kLongestArrivalPause{16'000};
constexpr std::size_t kMostKnown = 1 << 16;  // entries of NewArrivals; elastic jobs add some with each generation
constexpr int kWorldsOfGeneration = 256;     // see RankPage::world

std::uint64_t page_number(const RankArrival& arrival) {
  return (static_cast<std::uint64_t>(arrival.kind) << base::kSampleKindShift) | arrival.number;
}

}  // namespace

std::optional<v1::ArrivalTimes> NewArrivals::select(const std::vector<RankStatus>& statuses, int size) {
  v1::ArrivalTimes times;
  if (reported_.size() > kMostKnown) reported_.clear();
  for (const RankStatus& status : statuses) {
    for (const bool are_beats : {false, true}) {
      if (!are_beats && status.size != size) continue;
      v1::RankArrivals arrivals;
      std::uint64_t numbers = 0;
      // Heartbeats go on from world to world.
      const int world = are_beats ? status.world - status.world % kWorldsOfGeneration : status.world;
      std::map<base::SampleKind, std::int64_t> newest;
      for (const RankArrival& arrival : status.arrivals) {
        if ((arrival.kind == base::SampleKind::kHeartbeat) != are_beats) continue;
        const auto known = reported_.find({status.rank, world, arrival.kind});
        if (known != reported_.end() && arrival.ns <= known->second) continue;
        std::int64_t& last = newest[arrival.kind];
        last = std::max(last, arrival.ns);
        arrivals.add_operations(are_beats ? arrival.number : page_number(arrival));
        arrivals.add_agent_ns(arrival.ns);
        numbers |= arrival.number;
      }
      if (arrivals.operations().empty()) continue;
      for (const auto& [kind, ns] : newest) reported_[{status.rank, world, kind}] = ns;
      arrivals.set_rank(status.rank);
      arrivals.set_world(world);
      arrivals.set_stride(std::uint64_t{1} << std::min(std::countr_zero(numbers), base::kSampleKindShift));
      arrivals.set_ended(status.ended);
      arrivals.set_beats(status.beats);
      arrivals.set_beats_only(are_beats);
      *times.add_ranks() = std::move(arrivals);
    }
  }
  if (times.ranks().empty()) return std::nullopt;
  return times;
}

void ArrivalReport::begin(const std::string& session_directory, int size) {
  directory_ = session_directory;
  size_ = size;
  pause_ = kPeriod;
  timer_ = size < 2 ? base::Timer() : loop_.after(pause_, [this] { look(); });
}

void ArrivalReport::look() {
  const std::vector<RankStatus> statuses = read_rank_statuses(directory_);
  pause_ = statuses.empty() ? std::min(2 * pause_, kLongestArrivalPause) : kPeriod;
  timer_ = loop_.after(pause_, [this] { look(); });
  if (auto times = new_.select(statuses, size_)) send_(std::move(*times));
}

}  // namespace muster::agent::job
