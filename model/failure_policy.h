// Says how a job goes on after one of its ranks or hosts has failed: --on-failure, --spares, --min-np. A plain value.
#pragma once

#include <string>
#include <vector>

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
  int min_ranks = 1;  // kShrink: with fewer ranks the job ends
  int min_hosts = 1;  // kShrink: with fewer hosts the job ends
  // A generation whose ranks print a line with this text has made progress: its failure does not count. Empty means
  // that all failures count.
  std::string progress_text{};
  std::vector<HostSpec> spares{};  // kReplace and kShrink: hosts in reserve, the first one is used first
};

// True if a job of this policy may start again on other hosts.
constexpr bool may_change_hosts(const FailurePolicy& policy) {
  return policy.on_failure == OnFailure::kReplace || policy.on_failure == OnFailure::kShrink;
}

}  // namespace muster::model
