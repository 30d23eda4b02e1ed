// Judges which group of ranks a process of a rank has formed, from what /proc shows of it. Pure.
//
// Only evidence counts: a world of libmuster that has formed, a launcher inside a rank that has started its processes,
// an Open MPI or MPICH that has begun without a launcher. A variable alone is no evidence, since the program may not
// use it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline job {

// One process of a rank. `launcher` names the nearest launcher inside the rank that has started it: "torchrun",
// "accelerate", "mpirun", "horovodrun". Empty if there is none.
struct ProcessFacts {
  std::map<std::string, std::string> variables = {};  // only those of kWorldVariables
  std::vector<std::string> threads = {};              // their names
  std::string launcher = {};
  bool has_begun_open_mpi = false;  // MPI_Init of Open MPI has run
  bool has_begun_mpich = false;     // MPI_Init of MPICH has run in the program of a rank that was offered PMI
};

inline constexpr std::string_view kWorldVariables[] = {
    "MUSTER_SESSION_DIR", "MUSTER_RENDEZVOUS",    "MUSTER_SIZE", "GROUP_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
    "HOROVOD_SIZE",       "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",   "PMI_SIZE",         "PMI_FD",
    "PMI_PORT",
};

struct FormedGroup {
  int size = 0;             // number of the job's ranks in the group
  std::string source = {};  // as v1::FormedWorld.source
  std::string detail = {};  // as v1::RankWorld.detail
  bool operator==(const FormedGroup&) const = default;
};

// Returns the launcher that this command is: "torchrun" for "python3 -m torch.distributed.run …". Empty if it is none.
std::string launcher_of(const std::vector<std::string>& arguments);

// True if the content of /proc/PID/maps shows that MPI_Init of Open MPI has run: version 3 or 4 has loaded its
// components, version 5 has opened its shared memory or UCX's transports. A program that only links the library does
// neither.
bool maps_begun_open_mpi(std::string_view maps);
// The same for MPICH 4 and 5: MPI_Init has opened MPICH's shared memory or UCX's transports. False for Intel MPI and
// Cray MPICH, whose MPI_Init leaves other traces.
bool maps_begun_mpich(std::string_view maps);

// `job_size` is the size that Muster gave the rank. `has_contact` is true if the rank has called Muster's PMI or PMIx
// server. nullopt if the process shows no group.
std::optional<FormedGroup> group_of(const ProcessFacts& process, int job_size, bool has_contact);

// Returns the group of a rank, from those of its processes. nullopt if one of them has the job's size, or if there is
// none.
std::optional<FormedGroup> wrong_group(const std::vector<FormedGroup>& groups, int job_size);

}  // namespace muster::agent::job
