// The value of --stage-env: a folder, or the word venv or conda for the environment that is active in this shell.
#pragma once

#include <string>

#include "base/env.h"
#include "base/status.h"
#include "model/job_spec.h"

namespace muster::cli::inline hosts {

// Replaces the word by the folder, and makes the path absolute. Pure. INVALID_ARGUMENT: no environment is active, or
// the job's ranks cannot start from it.
base::Status settle_stage_env(model::JobSpec& job, const base::Environment& environment, const std::string& directory);

// Checks that the folder is there. Only where this machine packs it.
base::Status check_stage_env(const model::JobSpec& job);

}  // namespace muster::cli::hosts
