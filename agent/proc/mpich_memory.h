// Removes files that MPICH 4.3 and later leave in /dev/shm when ranks are killed: mpich_shm_<world>_<node> and
// mpich_vci_<world>_<node>. MPICH removes them only in MPI_Finalize.
//
// Thread: single-threaded. Calls block.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline proc {

// Returns the <world> in those names: the 32-bit FNV-1a hash of PMI's name of the key-value space (MPICH,
// src/util/mpir_pmi.c), in hexadecimal digits.
std::string mpich_world(std::string_view kvs_name);

// Removes this user's files of that world from `directory`. The world's ranks on this host must have ended.
base::Status remove_mpich_memory(const std::string& directory, std::string_view kvs_name);

}  // namespace muster::agent::proc
