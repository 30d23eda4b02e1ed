// The CPUs that this process may run on.
#pragma once

#include <vector>

namespace muster::base {

inline constexpr int kMaxCpu = 65535;

// Returns the numbers of these CPUs, ascending. Empty if the kernel does not report them.
std::vector<int> allowed_cpus();

}  // namespace muster::base
