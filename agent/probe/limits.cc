#include "agent/probe/limits.h"

#include <sys/resource.h>

#include <algorithm>

#include "agent/proc/cgroup.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

constexpr long kMostPids = 1L << 40;

std::int64_t number_of(rlim_t limit) {
  if (limit == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(std::min<rlim_t>(limit, static_cast<rlim_t>(RLIM_INFINITY) >> 1));
}

// Returns the lowest pids.max from our cgroup up to the root. nullopt if none is set, or if there is no cgroup v2.
std::optional<long> cgroup_pids() {
  const auto mountinfo = base::read_file("/proc/self/mountinfo");
  const auto self = base::read_file("/proc/self/cgroup");
  if (!mountinfo.ok() || !self.ok()) return std::nullopt;
  auto path = find_own_cgroup(*mountinfo, *self);
  if (!path.ok()) return std::nullopt;
  std::optional<long> lowest;
  for (std::string at = *path; at.size() > 1; at.resize(at.rfind('/'))) {
    const auto content = base::read_file(at + "/pids.max", 64);
    const auto limit = content.ok() ? base::parse_decimal(base::trim(*content), kMostPids) : std::nullopt;
    if (limit) lowest = std::min(lowest.value_or(kMostPids), *limit);
    if (at.find('/') == std::string::npos) break;
  }
  return lowest;
}

}  // namespace

std::vector<v1::LimitFact> read_limits() {
  struct Row {
    const char* name;
    __rlimit_resource_t resource;
  };
  std::vector<v1::LimitFact> facts;
  for (const Row& row : {Row{"nofile", RLIMIT_NOFILE}, {"memlock", RLIMIT_MEMLOCK}, {"nproc", RLIMIT_NPROC}}) {
    struct rlimit limit {};
    // The call fails only for a resource that this kernel does not know.
    if (::getrlimit(row.resource, &limit) != 0) continue;
    v1::LimitFact& fact = facts.emplace_back();
    fact.set_name(row.name);
    fact.set_soft(number_of(limit.rlim_cur));
    fact.set_hard(number_of(limit.rlim_max));
  }
  if (const auto pids = cgroup_pids()) {
    v1::LimitFact& fact = facts.emplace_back();
    fact.set_name("pids");
    fact.set_soft(*pids);
    fact.set_hard(*pids);
  }
  return facts;
}

}  // namespace muster::agent::probe
