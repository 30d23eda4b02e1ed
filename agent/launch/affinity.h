// Launch step: the CPUs that a rank may use (--bind-to, decided by the binder in model/). Pure but for the error text,
// which asks the kernel what this process may use.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline launch {

// The mask as sched_setaffinity takes it; empty for no CPUs (untouched). INVALID_ARGUMENT: a number out of range.
base::Result<std::vector<unsigned long>> cpu_mask(const std::vector<int>& cpus);

// One sentence for the user after the kernel has refused the mask.
std::string explain_affinity_failure(const std::vector<int>& cpus, int errno_value);

}  // namespace muster::agent::launch
