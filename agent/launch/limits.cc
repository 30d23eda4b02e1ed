#include "agent/launch/limits.h"

#include <algorithm>

namespace muster::agent::inline launch {

std::vector<RlimitSetting> default_limits() {
  std::vector<RlimitSetting> settings;
  for (const int resource : {RLIMIT_NOFILE, RLIMIT_MEMLOCK}) {
    struct rlimit limit {};
    // Fails only for an unknown resource.
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;
    settings.push_back({resource, limit.rlim_max, limit.rlim_max});
  }
  return settings;
}

std::vector<RlimitSetting> merge_limits(std::vector<RlimitSetting> base, const std::vector<model::Ulimit>& over) {
  for (const model::Ulimit& limit : over) {
    const RlimitSetting setting{limit.resource, limit.soft, limit.hard};
    const auto same = std::ranges::find(base, setting.resource, &RlimitSetting::resource);
    if (same == base.end()) {
      base.push_back(setting);
    } else {
      *same = setting;
    }
  }
  return base;
}

}  // namespace muster::agent::launch
