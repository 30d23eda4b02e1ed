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
  // Appended to PYTHONPATH, behind what the user has there. The last one is the folder of Muster's `horovod`; with
  // MUSTER_HOROVOD=muster that folder's name and "_first" (python/muster/dropin_first) is put before everything.
  std::vector<std::string> python_folders{};
};

// The launcher's variables that go to the ranks (CONTRACT: never BASH_FUNC_*, HOME, SSH_*, another launcher's rank
// variables, …), then the named ones, then the Python folders. `-x NAME` of a variable that is not set is left out.
// `local`: the ranks run on this host, so masks over its GPUs (*CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, …) travel
// too.
std::vector<std::pair<std::string, std::string>> exported_variables(const base::Environment& launcher,
                                                                    const ExportPolicy& policy, bool local);

// True for what a launcher (ours or another) tells one rank about itself: a rank must not inherit it from anywhere
// else.
bool is_rank_variable(std::string_view name);

// True if the default policy never exports `name`.
bool is_never_exported(std::string_view name, bool local);

// A host's name in the keys of Horovod's store, whose paths hold '/' and ':': those become '-'.
std::string horovod_hostname(std::string name);

// Where torch's @record writes what a rank has raised, on the rank's host.
std::string torch_error_file(const std::string& session_dir, int rank);

// "10.0.0.1:8000", "[fd00::1]:8000".
std::string host_and_port(const std::string& address, int port);

struct RankEnvInput {
  std::string job_id;
  int attempt = 0;
  int max_restarts = 0;
  PlacedRank rank;
  int size = 0;
  int nnodes = 0;
  bool has_peers_elsewhere = false;  // spawned ranks speak with others of the job, on more hosts than `nnodes`
  std::string hostname;              // of the rank's host, as in the host list
  std::string session_dir;           // on that host
  std::string master_addr;
  int master_port = 0;
  std::string role = "default";  // torch's name for the group of ranks
  int role_rank = -1;            // in a job with roles (model/role.h): the rank within its own, and how many that has
  int role_size = 0;             // -1: the job has none, all ranks are one group
  std::string interface;         // NIC by which this host and rank 0's host reach each other; empty: not known
  int omp_num_threads = 0;       // 0: do not set
  bool torch_agent_store = false;
  Runtime runtime = Runtime::kAuto;
  std::vector<std::string> tensorflow_workers{};  // host:port of each rank, for TF_CONFIG
};

// Only variables that the rank must have, for the programs that `runtime` serves; NIC names, OMP_NUM_THREADS,
// PYTHONUNBUFFERED, TF_CONFIG, TORCHELASTIC_RUN_ID and the like are left out where `user_set` already has them.
std::vector<std::pair<std::string, std::string>> rank_variables(const RankEnvInput& input,
                                                                const base::Environment& user_set);

}  // namespace muster::model
