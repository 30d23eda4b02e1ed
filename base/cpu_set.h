// The CPUs that this process may run on.
#pragma once

#include <vector>

namespace muster::base {

inline constexpr int kMaxCpu = 65535;

// By number, ascending; empty if the kernel does not say.
std::vector<int> allowed_cpus();

}  // namespace muster::base
