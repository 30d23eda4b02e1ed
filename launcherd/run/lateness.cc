#include "launcherd/run/lateness.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/strings.h"

namespace muster::launcherd::inline run {
namespace {

constexpr std::int64_t kMissing = std::numeric_limits<std::int64_t>::min();
constexpr std::size_t kMostTimes = std::size_t{1} << 20;  // in open reports
constexpr std::size_t kMostOpen = 1024;
constexpr std::size_t kLeastOpen = 4;
constexpr std::size_t kKept = 64;
constexpr std::int64_t kLeastOperations = 10;
constexpr std::int64_t kNanosPerMicro = 1'000;
constexpr std::int64_t kLateHostNs = 1'000'000;

std::int64_t median_of(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::int64_t median_of(const std::deque<std::int64_t>& values) {
  return median_of(std::vector<std::int64_t>(values.begin(), values.end()));
}

}  // namespace

void Lateness::begin(std::vector<std::string> hosts) {
  *this = Lateness();
  hosts_ = std::move(hosts);
}

Lateness::Open& Lateness::open_at(const Key& key) {
  const auto found = open_.find(key);
  if (found != open_.end()) return found->second;
  const std::size_t most = std::clamp(kMostTimes / hosts_.size(), kLeastOpen, kMostOpen);
  while (open_.size() >= most) open_.erase(open_.begin());  // the oldest
  Open& open = open_[key];
  open.ns.assign(hosts_.size(), kMissing);
  open.missing = hosts_.size();
  return open;
}

bool Lateness::add(const Arrival& arrival) {
  if (arrival.rank < 0 || static_cast<std::size_t>(arrival.rank) >= hosts_.size() || hosts_.size() < 2) return false;
  const Key key{arrival.world, arrival.is_beat, arrival.number};
  Open& open = open_at(key);
  std::int64_t& ns = open.ns[static_cast<std::size_t>(arrival.rank)];
  if (ns == kMissing) --open.missing;
  ns = arrival.ns;
  open.uncertainty_ns = std::max(open.uncertainty_ns, arrival.uncertainty_ns);
  if (open.missing != 0) return false;
  compare(open);
  open_.erase(key);
  return true;
}

void Lateness::compare(const Open& open) {
  ++operations_;
  const auto last = std::ranges::max_element(open.ns);
  const std::int64_t late = *last - median_of(open.ns);
  if (late <= std::max(kLeastNs, open.uncertainty_ns)) return;
  const auto rank = static_cast<std::size_t>(last - open.ns.begin());
  count(ranks_[static_cast<int>(rank)], late);
  count(late_hosts_[hosts_[rank]], late);
}

void Lateness::count(Late& late, std::int64_t ns) {
  ++late.count;
  late.newest_ns.push_back(ns);
  if (late.newest_ns.size() > kKept) late.newest_ns.pop_front();
}

std::vector<v1::RankLateness> Lateness::latest() const {
  std::vector<std::pair<std::int64_t, int>> order;
  for (const auto& [rank, late] : ranks_) order.emplace_back(-late.count, rank);
  std::ranges::sort(order);
  if (order.size() > kShownRanks) order.resize(kShownRanks);
  std::vector<v1::RankLateness> shown;
  for (const auto& [count, rank] : order) {
    const Late& late = ranks_.at(rank);
    v1::RankLateness& one = shown.emplace_back();
    one.set_rank(rank);
    one.set_host(base::valid_utf8(hosts_[static_cast<std::size_t>(rank)]));
    one.set_late(late.count);
    one.set_operations(operations_);
    one.set_median_us(median_of(late.newest_ns) / kNanosPerMicro);
    one.set_score(1 - static_cast<double>(late.count) / static_cast<double>(operations_));
  }
  return shown;
}

std::optional<model::LateHost> Lateness::late_host() const {
  const bool has_more_hosts = std::set<std::string>(hosts_.begin(), hosts_.end()).size() > 1;
  if (!has_more_hosts || operations_ < kLeastOperations) return std::nullopt;
  for (const auto& [host, late] : late_hosts_) {
    const std::int64_t median = median_of(late.newest_ns);
    if (2 * late.count <= operations_ || median <= kLateHostNs) continue;
    return model::LateHost{.host = host,
                           .late = late.count,
                           .operations = operations_,
                           .median = std::chrono::microseconds(median / kNanosPerMicro)};
  }
  return std::nullopt;
}

}  // namespace muster::launcherd::run
