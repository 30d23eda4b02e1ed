#include "launcherd/elastic/elastic_hosts.h"

#include <algorithm>

namespace muster::launcherd::inline elastic {
namespace {

template <typename Hosts>
auto find_listed(Hosts& hosts, const std::string& name) {
  return std::ranges::find(hosts, name, &ElasticHost::name);
}

}  // namespace

void ElasticHosts::set_listed(const std::vector<ElasticHost>& hosts) {
  std::vector<ElasticHost> merged;
  for (const ElasticHost& host : hosts) {
    const auto same = find_listed(merged, host.name);
    if (same == merged.end()) {
      merged.push_back(host);
    } else {
      same->slots += host.slots;
    }
  }
  std::erase_if(limits_, [&](const auto& limit) {
    const auto now = find_listed(merged, limit.first);
    const auto before = find_listed(listed_, limit.first);
    return now == merged.end() || before == listed_.end() || now->slots != before->slots;
  });
  listed_ = std::move(merged);
  update_order();
}

void ElasticHosts::update_order() {
  std::erase_if(order_, [&](const std::string& name) {
    return blacklist_.contains(name) || find_listed(listed_, name) == listed_.end();
  });
  for (const ElasticHost& host : listed_) {
    const bool is_known = std::ranges::find(order_, host.name) != order_.end();
    if (!is_known && !blacklist_.contains(host.name)) order_.push_back(host.name);
  }
}

void ElasticHosts::blacklist(const std::string& host, base::MonotonicTime now) {
  blacklist_.add(host, now);
  limits_.erase(host);
  update_order();
}

void ElasticHosts::limit(const std::string& host, int slots) {
  const auto [at, is_new] = limits_.emplace(host, slots);
  if (!is_new) at->second = std::min(at->second, slots);
}

std::optional<int> ElasticHosts::limit_of(const std::string& host) const {
  const auto limit = limits_.find(host);
  return limit == limits_.end() ? std::nullopt : std::optional(limit->second);
}

void ElasticHosts::put_first(const std::string& host) {
  const auto at = std::ranges::find(order_, host);
  if (at != order_.end()) std::rotate(order_.begin(), at, at + 1);
}

bool ElasticHosts::recover(base::MonotonicTime now) {
  if (blacklist_.take_recovered(names(), now).empty()) return false;
  update_order();
  return true;
}

std::vector<std::string> ElasticHosts::names() const {
  std::vector<std::string> names;
  for (const ElasticHost& host : listed_) names.push_back(host.name);
  return names;
}

std::vector<ElasticHost> ElasticHosts::usable() const {
  std::vector<ElasticHost> usable;
  for (const std::string& name : order_) {
    ElasticHost host = *find_listed(listed_, name);
    if (const auto limit = limits_.find(name); limit != limits_.end()) host.slots = std::min(host.slots, limit->second);
    if (host.slots > 0) usable.push_back(std::move(host));
  }
  return usable;
}

std::optional<base::MonotonicTime> ElasticHosts::next_recovery() const {
  // Most jobs have many hosts, and few of them are black-listed.
  std::vector<std::string> failed = blacklist_.hosts();
  std::erase_if(failed, [&](const std::string& name) { return find_listed(listed_, name) == listed_.end(); });
  return blacklist_.next_end(failed);
}

int count_slots(const std::vector<ElasticHost>& hosts) {
  int slots = 0;
  for (const ElasticHost& host : hosts) slots += host.slots;
  return slots;
}

}  // namespace muster::launcherd::elastic
