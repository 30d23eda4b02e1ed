// The hosts on which an elastic job starts nothing for now, or ever again.
//
// Protocol: HostState of horovod 0.28.1, runner/elastic/discovery.py. The n-th time on the list lasts
// low * 2^n + U(0,1) * low, within [low, high]. Without a range a host stays for ever.
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

namespace muster::launcherd::inline elastic {

using CooldownRange = std::optional<std::pair<base::Duration, base::Duration>>;  // low and high

class HostBlacklist {
 public:
  // `random` returns numbers in [0, 1).
  HostBlacklist(CooldownRange range, std::function<double()> random) : range_(range), random_(std::move(random)) {}

  // No effect if the host is on the list.
  void add(const std::string& host, base::MonotonicTime now);
  bool contains(const std::string& host) const;
  // Takes those of `hosts` off the list whose time is over, and returns them. The other hosts stay listed, because a
  // host returns only when the job may use it.
  std::vector<std::string> take_recovered(const std::vector<std::string>& hosts, base::MonotonicTime now);
  // The earliest end of the time of a host on the list; nullopt if all stay forever. `hosts` are considered only.
  std::optional<base::MonotonicTime> next_end(const std::vector<std::string>& hosts) const;
  std::vector<std::string> hosts() const;
  // The end of the host's time on the list. nullopt: it is not on the list, or stays forever.
  std::optional<base::MonotonicTime> end_of(const std::string& host) const;

 private:
  struct Entry {
    int count = 0;  // how often the host came onto the list
    bool is_listed = false;
    std::optional<base::MonotonicTime> end{};  // nullopt means never
  };

  const CooldownRange range_;
  const std::function<double()> random_;
  std::map<std::string, Entry> entries_;
};

}  // namespace muster::launcherd::elastic
