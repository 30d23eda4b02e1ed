// Finds the hosts of the surrounding scheduler allocation. Slurm, PBS, Cobalt and LSF describe them in the environment;
// Flux must be asked. Reads only the node file that the environment names. Resolves no names.
// Thread: calls block as long as the file system does, and for Flux until it answers.
//
// If a scheduler counts tasks or chunks of a node, it lists the node once for each of them. place() counts repeated
// names as slots; -N overrides them. If the job does not mention tasks, a host that is listed once may get more slots
// from its number of GPUs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "launcherd/hosts/ask_program.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

struct Allocation {
  std::string scheduler;  // "Slurm", "PBS", "Cobalt", "LSF", "Flux"
  std::string source;     // "SLURM_JOB_NODELIST", "PBS_NODEFILE /var/spool/…"
  std::vector<model::HostSpec> hosts;
  // True if some host is listed once and the scheduler does not say how many ranks that host may run.
  bool has_uncounted = false;
};

// nullopt if this process is in no allocation. The error names the variable, or the file with line and column.
base::Result<std::optional<Allocation>> find_allocation(const base::Environment& environment, const AskProgram& ask);

// Parses SLURM_JOB_NODELIST ("n[01-03,07],gpu1") with SLURM_TASKS_PER_NODE ("2(x3),1"; empty means not given). Pure.
base::Result<std::vector<model::HostSpec>> slurm_hosts(std::string_view node_list, std::string_view tasks_per_node);

// Parses COBALT_PARTNAME of a Cray: "3835,4-6" is nid03835, nid00004, nid00005, nid00006. Pure.
base::Result<std::vector<model::HostSpec>> cobalt_hosts(std::string_view node_ids);

// Parses LSB_MCPU_HOSTS, in which hosts and their slots alternate: "n1 4 n2 2". Pure.
base::Result<std::vector<model::HostSpec>> lsf_hosts(std::string_view hosts_and_slots);

}  // namespace muster::launcherd::hosts
