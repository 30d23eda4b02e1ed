// Where a job runs: the hosts of -H, of a hostfile, of the allocation around us, or this one. Reads files.
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
  std::string note{};           // a line for --verbose that says what it was; empty: the user has named them
  bool may_be_counted = false;  // nobody has said how many ranks a host is for that is listed once
};

// Fills job.placement.hosts; leaves it empty where the job runs on this host. Paths are relative to `directory`.
base::Result<HostSource> find_hosts(HvdrunOptions& options, const base::Environment& environment,
                                    const std::string& directory);

// For a launcherd that is to have `hosts`: those that it asks for their GPUs stay without slots, all others get 1. It
// can ask only those that agents are started on by us, over ssh.
void settle_uncounted(const HvdrunOptions& options, const HostSource& source, std::vector<model::HostSpec>& hosts);

// As find_hosts(); its note.
base::Result<std::string> choose_hosts(HvdrunOptions& options, const base::Environment& environment,
                                       const std::string& directory);

struct PlacedJob {
  model::Placement placement;
  std::string hosts_note;  // of choose_hosts()
};

// What hosts look like, one result each. May start agents there.
using LookAtHosts = std::function<std::vector<base::Result<model::NodeShape>>(const std::vector<model::HostSpec>&)>;

// Which hosts are not well. May start agents there; empty: nobody looks, and all are taken for well.
using CheckHosts = std::function<base::Result<std::vector<HostHealth>>(const std::vector<model::HostSpec>&)>;

// --spare and --health-check: takes hosts off the list, and notes which and why.
base::Status leave_out_hosts(HvdrunOptions& options, const CheckHosts& check);

// For questions to schedulers; Ctrl-C ends one, and so does a minute, or `limit`.
base::Result<std::string> ask_scheduler(const std::vector<std::string>& argv);
base::Result<std::string> ask_scheduler_within(std::chrono::seconds limit, const std::vector<std::string>& argv);

// 2: the command line is at fault; 125: a host, or a program that names hosts.
int placement_exit_code(const base::Status& failure);

// --wdir, of the job and of its programs, and the paths of --stage, made absolute.
void settle_directories(model::JobSpec& job, const std::string& directory);

// What the options leave to their surroundings: directory, umask, hosts; and who runs where. Hosts are looked at only
// where their devices count (options.devices, or hosts without slots that one rank each is not enough for), or their
// health (options.health_check).
base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory, const LookAtHosts& look, const CheckHosts& check = {});

}  // namespace muster::cli::hosts
