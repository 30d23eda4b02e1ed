// Finds out which MPI library a process has loaded, from the names of its mapped files.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace muster::agent::inline pmi {

// `maps` is the content of /proc/PID/maps. True if it names the UCX library and MPICH, or a derivative of MPICH that
// keeps the file's name.
bool maps_mpich_over_ucx(std::string_view maps);
// False also if the process cannot be read.
bool is_mpich_over_ucx(pid_t pid);

}  // namespace muster::agent::pmi
