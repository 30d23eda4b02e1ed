// Finds the hosts of a job: those of -H, of a hostfile, of the scheduler's allocation around this process, or this
// host. Reads files.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/options.h"

namespace muster::cli::inline hosts {

struct HostSource {
  // A line for --verbose that names the source. Empty if the user named the hosts.
  std::string note{};
  // True if no source gives the number of ranks for a host that is listed once.
  bool may_be_counted = false;
  bool is_missing = false;  // no source names hosts, so the job runs on this host
};

// Makes up hosts for a dry run.
using MakeUpHosts = std::function<std::vector<model::HostSpec>()>;

// Fills request.job.placement.hosts. If no source names hosts, `make_up` does. The list stays empty if the job runs on
// this host. Paths are relative to `directory`.
base::Result<HostSource> find_hosts(JobRequest& request, const base::Environment& environment,
                                    const std::string& directory, const MakeUpHosts& make_up = {});

// Prepares `hosts` for a launcherd. Hosts that launcherd asks for their GPUs stay without slots; all others get 1 slot.
// launcherd can ask a host only if ssh starts the agent there.
void set_default_slots(const Reach& reach, const HostSource& source, std::vector<model::HostSpec>& hosts);

struct PlacedJob {
  model::Placement placement;
  std::string hosts_note;  // HostSource::note of the hosts
};

// Returns the shape of each host, one result each. May start agents there.
using ProbeShapes = std::function<std::vector<base::Result<model::NodeShape>>(const std::vector<model::HostSpec>&)>;

// Returns the health of the hosts. May start agents there. An empty CheckHosts means that no host is checked, and all
// count as healthy.
using CheckHosts = std::function<base::Result<std::vector<HostHealth>>(const std::vector<model::HostSpec>&)>;

// --spares and --health-check: removes hosts from the list, and adds a note with the reason for each.
base::Status leave_out_hosts(JobRequest& request, std::vector<std::string>& notes, const CheckHosts& check);

// Runs a scheduler's program and returns its output. Ends the program on Ctrl-C, and after a minute or `limit`.
base::Result<std::string> ask_scheduler(const std::vector<std::string>& argv);
base::Result<std::string> ask_scheduler_within(std::chrono::seconds limit, const std::vector<std::string>& argv);

// Returns 2 if the command line is at fault, 125 if a host or a program that lists hosts is.
int placement_exit_code(const base::Status& failure);

// Makes these paths absolute: --wdir of the job and of its programs, and the paths of --stage.
void settle_directories(model::JobSpec& job, const std::string& directory);

// Fills in what the options leave open (directory, umask, hosts) and places the ranks.
// Probes hosts only in these cases:
// - Their devices must be counted: for request.devices, or for hosts without slots if one rank each is not enough.
// - request.health_check asks for it.
base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory, const ProbeShapes& probe, const CheckHosts& check = {});

}  // namespace muster::cli::hosts
