#include "launcherd/elastic/host_blacklist.h"

#include <algorithm>
#include <cmath>

namespace muster::launcherd::inline elastic {

void HostBlacklist::add(const std::string& host, base::MonotonicTime now) {
  Entry& entry = entries_[host];
  if (entry.is_listed) return;
  entry.is_listed = true;
  entry.end.reset();
  if (!range_) return;
  ++entry.count;
  using Seconds = std::chrono::duration<double>;
  const double low = Seconds(range_->first).count();
  const double high = Seconds(range_->second).count();
  const double delay = std::ldexp(low, std::min(entry.count, 64)) + random_() * low;  // 2^64 exceeds every `high`
  entry.end = now + std::chrono::duration_cast<base::Duration>(Seconds(std::clamp(delay, low, std::max(low, high))));
}

bool HostBlacklist::contains(const std::string& host) const {
  const auto found = entries_.find(host);
  return found != entries_.end() && found->second.is_listed;
}

std::vector<std::string> HostBlacklist::take_recovered(const std::vector<std::string>& hosts, base::MonotonicTime now) {
  std::vector<std::string> recovered;
  for (const std::string& host : hosts) {
    const auto found = entries_.find(host);
    if (found == entries_.end() || !found->second.is_listed) continue;
    if (!found->second.end || *found->second.end > now) continue;
    found->second.is_listed = false;
    recovered.push_back(host);
  }
  return recovered;
}

std::optional<base::MonotonicTime> HostBlacklist::next_end(const std::vector<std::string>& hosts) const {
  std::optional<base::MonotonicTime> next;
  for (const std::string& host : hosts) {
    const auto found = entries_.find(host);
    if (found == entries_.end() || !found->second.is_listed || !found->second.end) continue;
    if (!next || *found->second.end < *next) next = found->second.end;
  }
  return next;
}

std::optional<base::MonotonicTime> HostBlacklist::end_of(const std::string& host) const {
  const auto found = entries_.find(host);
  return found != entries_.end() && found->second.is_listed ? found->second.end : std::nullopt;
}

std::vector<std::string> HostBlacklist::hosts() const {
  std::vector<std::string> hosts;
  for (const auto& [host, entry] : entries_) {
    if (entry.is_listed) hosts.push_back(host);
  }
  return hosts;
}

}  // namespace muster::launcherd::elastic
