// The record by which the next launcherd finds the ranks of a running job again. The bytes are a proto JobRecovery. The
// job store keeps these bytes among its secrets (docs/adr/0011).
//
// Thread: any. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/run/generation_hosts.h"
#include "launcherd/run/job_runner.h"
#include "model/placement.h"

namespace muster::launcherd::inline daemon {

struct Recovery {
  int attempt = 0;
  model::Placement placement;
  std::string secret;                 // secret of the attempt (PooledJob)
  StopCause stop = StopCause::kNone;  // kNone if no stop was requested
  bool stops_at_once = false;         // true if the stop was requested twice
  std::string stop_reason{};          // empty if an older launcherd wrote the record
  std::vector<int> first_of{};        // LaunchOptions::resumed_first_of
  // nullopt for jobs that an older launcherd began: each of their attempts counts as a restart.
  std::optional<ResumedGeneration> generation{};
};

std::string recovery_bytes(const Recovery& recovery);
// DATA_LOSS: the bytes are not a valid recovery.
base::Result<Recovery> recovery_of(const std::string& bytes);

}  // namespace muster::launcherd::daemon
