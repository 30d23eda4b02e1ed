// What is kept of a running job so that the next launcherd finds its ranks again: bytes of proto JobRecovery, which the
// job store keeps among its secrets (docs/adr/0011). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/run/job_runner.h"
#include "model/placement.h"

namespace muster::launcherd::inline daemon {

struct Recovery {
  int attempt = 0;
  model::Placement placement;
  std::string secret;                 // of the attempt: PooledJob
  StopCause stop = StopCause::kNone;  // somebody has asked for its end
  bool stops_at_once = false;         // and asked again
  std::string stop_reason{};          // empty: of a launcherd that did not store it
  std::vector<int> first_of{};        // LaunchOptions::resumed_first_of
};

std::string recovery_bytes(const Recovery& recovery);
// DATA_LOSS: these are no bytes of one.
base::Result<Recovery> recovery_of(const std::string& bytes);

}  // namespace muster::launcherd::daemon
