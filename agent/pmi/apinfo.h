// The file by which programs of Cray MPICH learn who is where: "apinfo", version 5, which HPE's launcher PALS writes on
// every host and names in PALS_APINFO. There is no description of it; this is what two launchers write that serve such
// programs, structs of C on a little-endian machine of 64 bits:
//   Slurm, src/plugins/mpi/cray_shasta/apinfo.{h,c} (by HPE); flux-coral2, src/common/libapinfo/apinfo5.{h,c}
// Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline pmi {

struct ApinfoHost {
  std::string name;        // by which the others reach it; at most 63 bytes
  std::vector<int> ranks;  // in the order of their local ranks
};

struct ApinfoProgram {
  int ranks = 0;
  int cpus_per_rank = 1;
};

// The whole file. `hosts`: all ranks from 0 on, each once. `programs`: all ranks, in their order. Left empty as both
// launchers do, because what belongs there is not known: communication profiles, network interfaces, distances, status.
// INVALID_ARGUMENT: the name of a host is too long, or ranks are missing; names the host.
base::Result<std::string> apinfo_file(const std::vector<ApinfoHost>& hosts, const std::vector<ApinfoProgram>& programs);

}  // namespace muster::agent::pmi
