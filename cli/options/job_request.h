// Holds what a job is and which hosts it takes, as the user requested it. How hosts are reached is in
// cli/options/reach.h; what is printed is in cli/options/output_plan.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/host_choice.h"
#include "model/dmlc.h"
#include "model/elastic_policy.h"
#include "model/job_spec.h"

namespace muster::cli::inline options {

// torchrun's --nnodes: the number of hosts that the user expects.
struct NodeCount {
  int min = 1;
  int max = 1;
  std::string label;  // the text with which errors begin
};

// torchrun's --nproc-per-node as a word: one rank for each device of a host.
struct DeviceCount {
  enum class Of { kGpus, kCpus, kGpusElseCpus };
  Of of = Of::kGpus;
  std::string label;  // the text with which errors begin
};

// horovodrun's options for elastic jobs. JobSpec::live has those that matter while the job runs.
struct ElasticOptions {
  std::string discovery_script;  // a script that prints the hosts; empty if none
  std::optional<long> slots_per_host;
  std::optional<long> min_ranks;
  std::optional<long> max_ranks;
  // The hosts of a run of the script that was made before. nullopt means that the script must run.
  std::optional<std::vector<model::HostSpec>> discovered{};
};

// Tells whether hosts are checked before the job starts, and how thoroughly.
enum class HealthCheck { kOff, kQuick, kFull };

// The numbers and hosts of MXNet's parameter server.
struct DmlcOptions {
  model::DmlcCounts counts{};
  std::vector<model::HostSpec> server_hosts{};  // empty means the workers' hosts
};

struct JobRequest {
  // placement.hosts holds the hosts of -H. The caller adds the hosts of `hostfile`, the umask and the directory.
  // job.workdir is empty without --wdir. A relative one is relative to the launcher's directory.
  model::JobSpec job{};
  std::string name{};                         // for people; may be empty
  std::vector<std::string> env_files{};       // --env-file: paths that the caller must read, in order
  std::string hostfile{};                     // path that the caller must read; empty if none
  std::optional<HostNumbers> host_numbers{};  // --nodes: use only these hosts
  int spares = 0;                             // --spares N: the number of hosts to leave out
  HealthCheck health_check = HealthCheck::kOff;
  std::optional<NodeCount> nodes{};  // surplus hosts are left out; too few are an error
  // Slots of hosts that have no explicit number. The caller must ask the hosts for their devices.
  std::optional<DeviceCount> devices{};
  ElasticOptions elastic{};
  // Only for launcherd's jobs. nullopt without --elastic-policy.
  std::optional<model::ElasticPolicy> elastic_policy{};
  // --num-workers and --num-servers. settle_dmlc() makes the roles once the hosts are known (cli/options/dmlc_job.h).
  std::optional<DmlcOptions> dmlc{};
};

}  // namespace muster::cli::options
