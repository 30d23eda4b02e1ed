// Writes the file "apinfo", version 5, by which programs of Cray MPICH learn which rank is on which host. HPE's
// launcher PALS writes it on every host and names it in PALS_APINFO. Pure.
//
// There is no description of the format. It consists of C structs of a little-endian 64-bit machine. This file does
// the same as two launchers that serve such programs:
//   Slurm, src/plugins/mpi/cray_shasta/apinfo.{h,c} (by HPE); flux-coral2, src/common/libapinfo/apinfo5.{h,c}
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline pmi {

struct ApinfoHost {
  std::string name;        // other hosts reach the host by this name; at most 63 bytes
  std::vector<int> ranks;  // in the order of their local ranks
};

struct ApinfoProgram {
  int ranks = 0;
  int cpus_per_rank = 1;
};

// Returns the whole file. `hosts` contains all ranks from 0 on, each once. `programs` contains all ranks, in their
// order.
// Communication profiles, network interfaces, distances and status stay empty, as in both launchers, because their
// content is unknown.
// INVALID_ARGUMENT: a host's name is too long, or ranks are missing. The text names the host.
base::Result<std::string> apinfo_file(const std::vector<ApinfoHost>& hosts, const std::vector<ApinfoProgram>& programs);

}  // namespace muster::agent::pmi
