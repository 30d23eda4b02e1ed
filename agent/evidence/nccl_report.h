// Parses the JSON report of NCCL's RAS (NCCL 2.24 and later), and finds the ranks of a job that it blames. The report
// comes from a program of the job, so nothing in it is trusted.
//
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/hang_report.h"

namespace muster::agent::inline evidence {

struct NcclRank {
  int rank = 0;                                   // in its communicator
  std::int64_t pid = 0;                           // -1 if NCCL does not know it
  bool is_dead = false;                           // only for missing ranks: NCCL has given it up
  std::map<std::string, std::uint64_t> counts{};  // operations begun, by the name of the operation
};

struct NcclCommunicator {
  int size = 0;
  std::vector<NcclRank> ranks{};    // that have answered
  std::vector<NcclRank> missing{};  // that have not
};

// Parses the answer to "VERBOSE STATUS" in the format json. INVALID_ARGUMENT: it is no such report.
base::Result<std::vector<NcclCommunicator>> parse_nccl_report(std::string_view json);

// The job, as far as this host knows it.
struct NcclJob {
  int size = 0;                         // ranks of the job
  std::map<std::int64_t, int> ranks{};  // by pid: processes that do the work of ranks of this host
};

// Returns one finding for each communicator in which ranks are missing, or have begun fewer operations than the others.
// A communicator of the job's size has the job's numbers if those of this host's ranks agree. Otherwise the finding
// says NCCL's numbers and names no ranks of the job.
std::vector<model::NcclFinding> nccl_findings(const std::vector<NcclCommunicator>& communicators, const NcclJob& job);

}  // namespace muster::agent::evidence
