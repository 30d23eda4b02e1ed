// Finds out when the scheduler will end the surrounding job.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/env.h"
#include "base/status.h"
#include "launcherd/hosts/ask_program.h"

namespace muster::launcherd::inline hosts {

// nullopt if this process is in no scheduler's job, or if that job has no limit. Reads the environment if it holds the
// time (SLURM_JOB_END_TIME, COBALT_ENDTIME). Otherwise asks the scheduler: squeue, qstat (PBS), bjobs, flux. The error
// contains the command and its answer. Blocks as long as `ask`.
base::Result<std::optional<base::WallTime>> allocation_end(const base::Environment& environment, const AskProgram& ask,
                                                           base::WallTime now);

// Parses "1-02:03:04", "02:03:04", "03:04" (minutes and seconds) and "04" (seconds). nullopt for other text. Pure.
std::optional<std::chrono::seconds> parse_clock_time(std::string_view text);

}  // namespace muster::launcherd::hosts
