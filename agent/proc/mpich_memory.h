// What MPICH from 4.3 on leaves in /dev/shm when its ranks are killed: files mpich_shm_<world>_<node> and
// mpich_vci_<world>_<node>, which it takes away in MPI_Finalize alone. Blocks; single-threaded.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline proc {

// The <world> in those names: the 32-bit FNV-1a of what PMI calls the key-value space (MPICH, src/util/mpir_pmi.c), in
// hexadecimal digits.
std::string mpich_world(std::string_view kvs_name);

// This user's files of that world in `directory`. Its ranks on this host are gone.
base::Status remove_mpich_memory(const std::string& directory, std::string_view kvs_name);

}  // namespace muster::agent::proc
