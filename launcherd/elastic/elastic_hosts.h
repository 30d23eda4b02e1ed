// The hosts that an elastic job may use now, in the order in which they get ranks.
//
// Order: known hosts keep their order, and new ones come last. So the oldest host keeps rank 0. A host that was removed
// or black-listed loses its place.
//
// Thread: any one; it has no clock of its own.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "launcherd/elastic/elastic_plan.h"
#include "launcherd/elastic/host_blacklist.h"

namespace muster::launcherd::inline elastic {

class ElasticHosts {
 public:
  ElasticHosts(CooldownRange range, std::function<double()> random) : blacklist_(range, std::move(random)) {}

  // Replaces the list of hosts. The slots of a repeated host add up.
  void set_listed(const std::vector<ElasticHost>& hosts);
  void blacklist(const std::string& host, base::MonotonicTime now);
  // Uses only the first `slots` slots of the host until its number of slots in the list changes.
  void limit(const std::string& host, int slots);
  // nullopt if the host has no limit.
  std::optional<int> limit_of(const std::string& host) const;
  // Moves the host to the front of the order. No effect if it is not usable.
  void put_first(const std::string& host);
  // Takes listed hosts back whose time on the black-list is over. Returns whether there was one.
  bool recover(base::MonotonicTime now);

  std::vector<ElasticHost> usable() const;
  std::optional<base::MonotonicTime> next_recovery() const;
  std::vector<std::string> blacklisted() const { return blacklist_.hosts(); }
  std::optional<base::MonotonicTime> blacklisted_until(const std::string& host) const {
    return blacklist_.end_of(host);
  }
  bool is_blacklisted(const std::string& host) const { return blacklist_.contains(host); }

 private:
  void update_order();
  std::vector<std::string> names() const;

  HostBlacklist blacklist_;
  std::vector<ElasticHost> listed_;
  std::map<std::string, int> limits_;
  std::vector<std::string> order_;  // the hosts of listed_ that are not black-listed
};

// Returns the number of slots of all hosts.
int count_slots(const std::vector<ElasticHost>& hosts);

}  // namespace muster::launcherd::elastic
