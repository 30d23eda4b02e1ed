// The hosts that a scheduler has given to the job in which we run: Slurm, PBS, Cobalt and LSF say so in the
// environment, Flux when it is asked. Reads the node file that is named there, nothing else; no name look-ups. Blocks
// for as long as the file system does, and for Flux as long as its answer takes.
//
// Where a scheduler counts tasks or chunks of a node, the node is listed once for each: place() takes repeated names as
// slots, and -N overrides them. A host that is listed once in a job that says nothing of tasks may have GPUs that
// nobody has counted.
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
  bool has_uncounted = false;  // what is listed once says nothing of how many ranks it is for
};

// nullopt: not inside an allocation. The error names the variable, or the file with line and column.
base::Result<std::optional<Allocation>> find_allocation(const base::Environment& environment, const AskProgram& ask);

// SLURM_JOB_NODELIST ("n[01-03,07],gpu1") with SLURM_TASKS_PER_NODE ("2(x3),1"; empty: not given). Pure.
base::Result<std::vector<model::HostSpec>> slurm_hosts(std::string_view node_list, std::string_view tasks_per_node);

// COBALT_PARTNAME of a Cray: "3835,4-6" is nid03835, nid00004, nid00005, nid00006. Pure.
base::Result<std::vector<model::HostSpec>> cobalt_hosts(std::string_view node_ids);

// LSB_MCPU_HOSTS, hosts and their slots in turn: "n1 4 n2 2". Pure.
base::Result<std::vector<model::HostSpec>> lsf_hosts(std::string_view hosts_and_slots);

}  // namespace muster::launcherd::hosts
