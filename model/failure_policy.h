// Says how a job goes on after one of its ranks or hosts has failed: --on-failure, --spares, --min-np and
// others. A plain value.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/host_spec.h"

namespace muster::model {

enum class OnFailure {
  kFail,     // the job ends
  kRestart,  // all ranks start again on the same hosts; a lost host ends the job
  kReplace,  // a spare takes the place of a failed host, then all ranks start again
  kShrink,   // as kReplace; if spares are missing, fewer ranks start again
};

struct FailurePolicy {
  OnFailure on_failure = OnFailure::kFail;
  int min_ranks = 1;               // kShrink: with fewer ranks the job ends. A resize never goes below.
  int min_hosts = 1;               // kShrink: with fewer hosts the job ends
  std::optional<int> max_ranks{};  // kReplace and kShrink: a resize never goes above; nullopt means no limit
  // A generation whose ranks print a line with this text has made progress: its failure does not count. Empty means
  // that all failures count.
  std::string progress_text{};
  // The same if this file changes on a host of the generation. Below the job's working folder if relative. Empty means
  // that no file shows progress.
  std::string progress_file{};
  // kReplace and kShrink: a failed host is a spare again after this time. nullopt means never in this job.
  std::optional<std::chrono::milliseconds> failed_host_cooldown{};
  std::vector<HostSpec> spares{};  // kReplace and kShrink: hosts in reserve, the first one is used first
};

// A host that a job has left out because it failed.
struct FailedHost {
  std::string name{};
  std::string reason{};                         // one phrase, for people
  std::optional<base::WallTime> usable_from{};  // then it is a spare again; nullopt means never
};

// True if a job of this policy may start again on other hosts.
constexpr bool may_change_hosts(const FailurePolicy& policy) {
  return policy.on_failure == OnFailure::kReplace || policy.on_failure == OnFailure::kShrink;
}

}  // namespace muster::model
