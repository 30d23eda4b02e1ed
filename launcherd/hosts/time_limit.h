// When the scheduler's job in which we run will be ended by its scheduler.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/env.h"
#include "base/status.h"
#include "launcherd/hosts/ask_program.h"

namespace muster::launcherd::inline hosts {

// nullopt: not inside a scheduler's job, or one without a limit. From the environment where it says so
// (SLURM_JOB_END_TIME, COBALT_ENDTIME), else by asking the scheduler: squeue, qstat (PBS), bjobs, flux. The error says
// what was asked and what it answered. Blocks as `ask` does.
base::Result<std::optional<base::WallTime>> allocation_end(const base::Environment& environment, const AskProgram& ask,
                                                           base::WallTime now);

// "1-02:03:04", "02:03:04", "03:04" (minutes and seconds), "04" (seconds); nullopt: none of these. Pure.
std::optional<std::chrono::seconds> parse_clock_time(std::string_view text);

}  // namespace muster::launcherd::hosts
