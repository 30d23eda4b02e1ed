// --health-check full: runs `muster_perf --self-test` on the hosts of a job before the job starts, one rank on each
// host. It tests libmuster's operations and shows only failures.
#pragma once

#include <string>

#include "base/env.h"
#include "cli/options/options.h"
#include "model/placement.h"

namespace muster::cli::inline run {

// Makes the options of the self-test from nothing. It takes from `tested` how hosts are reached, and the parts of the
// job that its ranks need to start and communicate. A new option changes the self-test only if this function names it.
// `directory` holds muster_perf. Pure.
HvdrunOptions self_test_options(const HvdrunOptions& tested, const model::Placement& placement,
                                const std::string& directory);

// Returns 0 if the self-test passed, else the exit code for hvdrun. Call it where run_job() may be called.
int run_self_test(const HvdrunOptions& tested, const model::Placement& placement, const base::Environment& environment);

}  // namespace muster::cli::run
