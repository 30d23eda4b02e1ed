// Which MPI a process has loaded, from the names of its mapped files.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace muster::agent::inline pmi {

// `maps`: as /proc/PID/maps. True: MPICH, or what is made of it and keeps its name, with the UCX library.
bool maps_mpich_over_ucx(std::string_view maps);
// False also for a process that cannot be looked at.
bool is_mpich_over_ucx(pid_t pid);

}  // namespace muster::agent::pmi
