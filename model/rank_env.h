// The environment of a rank: the launcher's variables that travel, and the variables in which each framework looks for
// its rank (names of Muster, Horovod, torch, and those like Open MPI's and PMI's). Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "model/placement.h"
#include "model/runtime.h"

namespace muster::model {

struct ExportPolicy {
  std::vector<std::string> named{};  // --env/-x NAME or NAME=VAL, in order
  bool only_named = false;           // --env-none
  // Appended to PYTHONPATH, behind the user's entries. The last one is the folder of Muster's `horovod`. With
  // MUSTER_HOROVOD=muster, that folder's name plus "_first" (python/muster/dropin_first) is put before everything.
  std::vector<std::string> python_folders{};
};

// Returns the launcher's variables that are exported to the ranks, then the named ones, then the Python folders.
// CONTRACT: never BASH_FUNC_*, HOME, SSH_*, another launcher's rank variables, …. `-x NAME` of an unset variable is
// left out. `local` means that the ranks run on this host. Then masks over this host's GPUs (*CUDA_VISIBLE_DEVICES,
// ROCR_VISIBLE_DEVICES, …) are exported, too.
std::vector<std::pair<std::string, std::string>> exported_variables(const base::Environment& launcher,
                                                                    const ExportPolicy& policy, bool local);

// True for variables in which a launcher, ours or another, describes one rank to itself. A rank must not inherit them
// from any other source.
bool is_rank_variable(std::string_view name);

// True if the default policy never exports `name`.
bool is_never_exported(std::string_view name, bool local);

// Returns a host's name in the keys of Horovod's store. '/' and ':' become '-', because the paths of keys use them.
std::string horovod_hostname(std::string name);

// Returns the file to which torch's @record writes a rank's exception, on the rank's host.
std::string torch_error_file(const std::string& session_dir, int rank);

// Returns the FIFO of torch's watchdog on a host.
std::string torch_timer_file(const std::string& session_dir);

// Returns text such as "10.0.0.1:8000" or "[fd00::1]:8000".
std::string host_and_port(const std::string& address, int port);

struct RankEnvInput {
  std::string job_id;
  int attempt = 0;   // the generation of the job; the first one is 0
  int restarts = 0;  // earlier generations that count against max_restarts
  int max_restarts = 0;
  bool is_live = false;  // the ranks may change while the job runs (ElasticSpec); `attempt` is then the generation
  PlacedRank rank;
  int size = 0;
  int nnodes = 0;
  // True for spawned ranks: they communicate with other ranks of the job, on more hosts than `nnodes`.
  bool has_peers_elsewhere = false;
  std::string hostname;     // name of the rank's host, as in the host list
  std::string session_dir;  // on the rank's host
  std::string master_addr;
  int master_port = 0;
  std::string role = "default";  // torch's name for the group of ranks
  int role_rank = -1;  // for a job with roles (model/role.h): the rank within its role; -1 if the job has none
  int role_size = 0;   // for a job with roles: the number of ranks of the role; without roles, all ranks are one group
  std::string interface;    // NIC by which this host and rank 0's host reach each other; empty if unknown
  int omp_num_threads = 0;  // 0 means do not set it
  bool torch_agent_store = false;
  bool has_torch_watchdog = false;  // only with torch_agent_store: the agent serves torch's watchdog
  bool is_torchrun = false;         // the rank is torchrun, whose rendezvous is the store at master_addr:master_port
  int torchrun_workers = 1;         // the number of workers that such a rank starts
  std::string address{};            // the address of the rank's host, for torchrun; empty if unknown
  Runtime runtime = Runtime::kAuto;
  std::vector<std::string> tensorflow_workers{};  // host:port of each rank, for TF_CONFIG
};

// Returns only variables that the rank must have, for the programs that `runtime` serves. NIC names, OMP_NUM_THREADS,
// PYTHONUNBUFFERED, TF_CONFIG, TORCHELASTIC_RUN_ID and similar ones are left out if `user_set` has them.
std::vector<std::pair<std::string, std::string>> rank_variables(const RankEnvInput& input,
                                                                const base::Environment& user_set);

}  // namespace muster::model
