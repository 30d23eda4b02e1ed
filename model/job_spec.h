// The user's request to run a job: one plain struct, which the CLI fills and the launcher reads.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_network.h"
#include "model/container.h"
#include "model/elastic_spec.h"
#include "model/failure_policy.h"
#include "model/hang_policy.h"
#include "model/host_spec.h"
#include "model/job_input.h"
#include "model/output_routes.h"
#include "model/pinning.h"
#include "model/placement.h"
#include "model/rank_env.h"
#include "model/role.h"
#include "model/runtime.h"
#include "model/ulimit.h"

namespace muster::model {

enum class OnExit {
  kNonzeroKill,  // a rank that fails ends the job; a rank that ends with 0 does not
  kAnyKill,      // the first rank that ends, ends the job
  kWait,         // wait for all, whatever they return
};

// The exact place of a rank, chosen outside Muster's binder.
struct RankPlace {
  int rank = 0;
  std::string host{};               // as in the host list
  std::vector<int> cpus{};          // OS numbers; empty means as Pinning says
  std::vector<std::string> gpus{};  // UUIDs; empty means as Pinning says
};

// A file or folder of the launcher's machine that is copied to the hosts before the start.
struct StagedPath {
  std::string source{};       // absolute
  std::string destination{};  // absolute; if it ends in '/', the folder into which a file goes

  bool operator==(const StagedPath&) const = default;
};

// A signal that all ranks get some time before the job's time ends.
struct EndSignal {
  int signo = 0;
  std::chrono::milliseconds ahead{};
};

// How the files of JobSpec::log_dir are laid out.
enum class LogLayout {
  kRanks,     // rank.NN/stdout, rank.NN/stderr, rank.NN/error.json
  kTorchrun,  // as torchrun's agents do: launcherd/output/torch_logs.h
};

struct JobSpec {
  std::vector<std::string> command;  // argv, byte for byte
  std::vector<std::size_t> expand;   // indexes of words in `command` in which {rank} … are replaced (model/expand.h)
  PlacementRequest placement;
  std::vector<RankPlace> places;  // by rank, for all ranks; empty means that they are dealt as `placement` says
  std::vector<Role> roles;     // several programs, whose sum is placement.np; empty means that all ranks run `command`
  bool expands_roles = false;  // whether {rank} … are replaced in the commands of `roles`
  bool is_dmlc = false;        // MXNet's parameter server, whose `roles` are those of model/dmlc.h
  std::vector<StagedPath> stages;
  // --stage-env: a folder of the launcher's machine. Ranks start from a copy of it on their host's disk. Absolute;
  // empty means none.
  std::string stage_env;
  Pinning pinning{};
  Container container{};
  Runtime runtime = Runtime::kAuto;
  ExportPolicy environment;
  std::string workdir;  // --wdir, or else the launcher's logical $PWD
  unsigned umask = 022;
  JobInput input;
  std::vector<Ulimit> limits;  // --ulimit; overrides the default (soft NOFILE and MEMLOCK raised)
  OnExit on_exit = OnExit::kNonzeroKill;
  std::chrono::milliseconds start_timeout{30'000};
  int min_hosts = 0;  // --min-hosts: so many hosts are enough to start after start_timeout; 0 means all must be up
  std::optional<std::chrono::milliseconds> timeout;  // --timeout: exit 124
  std::chrono::milliseconds kill_grace{5'000};
  std::optional<EndSignal>
      end_signal;  // --signal; before `timeout`, or the end of the scheduler's job if that is sooner
  std::chrono::milliseconds lease{15'000};
  FailurePolicy failure;            // whether and where the ranks start again after a failure
  HangPolicy hang;                  // when a job seems to hang, and what happens then
  std::optional<ElasticSpec> live;  // the ranks may change while the job runs; nullopt means that they are fixed
  int max_restarts = 0;             // restarts of the whole job after a rank has failed
  std::string role = "default";     // torchrun's role, for ROLE_NAME
  // The interfaces over which the ranks communicate, as the user chose them. Empty means the route to rank 0's host.
  // Names may differ from host to host: each host uses those that it has.
  std::vector<std::string> network_interfaces;
  std::optional<base::IpNetwork> network;
  // If true, the agent on rank 0's host serves torch's TCPStore, as torchrun's agent does. If false, rank 0 serves it.
  bool torch_agent_store = false;
  std::string output_dir;  // --output-filename; empty means console only
  OutputRoutes output;     // routes ranks' output to the console and to the files in output_dir
  bool prefix_timestamp = false;
  // torchrun's --log-dir. It gets error.json of each failed rank, and the filtered lines of `output`. Empty means none.
  std::string log_dir;
  LogLayout log_layout = LogLayout::kRanks;
};

}  // namespace muster::model
