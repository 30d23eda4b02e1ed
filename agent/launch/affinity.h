// Launch step: the CPUs that a rank may use (--bind-to; the binder in model/ chooses them). Pure, except for the
// error text, which asks the kernel which CPUs this process may use.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline launch {

// Returns the mask in the form that sched_setaffinity takes. Empty if there are no CPUs, so that the affinity stays.
// INVALID_ARGUMENT: a number is out of range.
base::Result<std::vector<unsigned long>> cpu_mask(const std::vector<int>& cpus);

// Returns one sentence for the user. Call it after the kernel has refused the mask.
std::string explain_affinity_failure(const std::vector<int>& cpus, int errno_value);

}  // namespace muster::agent::launch
