// What a user asked to run: one plain struct that the CLI fills and the launcher reads.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_network.h"
#include "model/container.h"
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
  kNonzeroKill,  // a rank that fails ends the job; ranks that end with 0 do not
  kAnyKill,      // the first rank that ends, ends the job
  kWait,         // wait for all, whatever they return
};

// Where exactly a rank runs, as somebody else has decided it.
struct RankPlace {
  int rank = 0;
  std::string host{};               // as in the host list
  std::vector<int> cpus{};          // OS numbers; empty: as Pinning says
  std::vector<std::string> gpus{};  // UUIDs; empty: as Pinning says
};

// A file or folder of the launcher's machine that is put on the hosts before the start.
struct StagedPath {
  std::string source{};       // absolute
  std::string destination{};  // absolute; ends in '/': a folder into which a file goes

  bool operator==(const StagedPath&) const = default;
};

// A signal that all ranks get some time before the job's time is over.
struct EndSignal {
  int signo = 0;
  std::chrono::milliseconds ahead{};
};

struct JobSpec {
  std::vector<std::string> command;  // argv, byte for byte
  std::vector<std::size_t> expand;   // the words of `command` in which {rank} … are replaced (model/expand.h)
  PlacementRequest placement;
  std::vector<RankPlace> places;  // by rank, of all of them; empty: they are dealt as `placement` says
  std::vector<Role> roles;        // several programs; placement.np is their sum then. Empty: `command` for all ranks
  bool expands_roles = false;     // {rank} … are replaced in the commands of `roles`
  bool is_dmlc = false;           // MXNet's parameter server: `roles` are those of model/dmlc.h
  std::vector<StagedPath> stages;
  Pinning pinning{};
  Container container{};
  Runtime runtime = Runtime::kAuto;
  ExportPolicy environment;
  std::string workdir;  // --wdir, else the launcher's logical $PWD
  unsigned umask = 022;
  JobInput input;
  std::vector<Ulimit> limits;  // --ulimit; over the default (soft NOFILE and MEMLOCK raised)
  OnExit on_exit = OnExit::kNonzeroKill;
  std::chrono::milliseconds start_timeout{30'000};
  std::optional<std::chrono::milliseconds> timeout;  // --timeout: exit 124
  std::chrono::milliseconds kill_grace{5'000};
  std::optional<EndSignal>
      end_signal;  // --signal; before `timeout`, or the end of the scheduler's job if that is sooner
  std::chrono::milliseconds lease{15'000};
  int max_restarts = 0;          // of the whole job, after a rank has failed
  std::string role = "default";  // torchrun's, for ROLE_NAME
  // By which the ranks talk, as the user wants it; empty: the way to rank 0's host. Names may differ from host to host:
  // each host uses those that it has.
  std::vector<std::string> network_interfaces;
  std::optional<base::IpNetwork> network;
  // torch's TCPStore is served by the agent on rank 0's host, as torchrun's agent does, instead of by rank 0.
  bool torch_agent_store = false;
  std::string output_dir;  // --output-filename; empty: console only
  OutputRoutes output;     // of the ranks, between the console and the files in output_dir
  bool prefix_timestamp = false;
  // torchrun's --log-dir: gets error.json of each rank that fails, and the filtered lines of `output`. Empty: none.
  std::string log_dir;
};

}  // namespace muster::model
