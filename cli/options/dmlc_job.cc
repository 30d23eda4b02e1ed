#include "cli/options/dmlc_job.h"

#include <algorithm>

#include "cli/help/base_names.h"
#include "model/runtime.h"

namespace muster::cli::inline options {
void read_dmlc(SettingReader& read, JobRequest& request) {
  for (const char* name : {"num-workers", "num-servers"}) {
    if (request.job.runtime == model::Runtime::kMxnet) break;
    read.custom(name, [](const Setting& setting) {
      return base::invalid_argument("{} belongs to --runtime mxnet", setting.label);
    });
  }
  int workers = 0;
  int servers = 0;
  read.number("num-workers", 1, model::kMaxRanks, workers);
  read.number("num-servers", 1, model::kMaxRanks, servers);
  if (workers == 0) {
    read.custom("num-servers", [](const Setting& setting) {
      return base::invalid_argument("{}: the number of workers is missing: add --num-workers N", setting.label);
    });
    return;
  }
  read.custom("num-proc", [](const Setting& setting) {
    return base::invalid_argument("{}: --num-workers and --num-servers set the number of ranks: leave it out",
                                  setting.label);
  });
  request.dmlc.emplace().counts = {.workers = workers, .servers = servers > 0 ? servers : workers};
}

Status settle_dmlc(JobRequest& request, bool any_hosts) {
  if (!request.dmlc) return base::ok_status();
  model::JobSpec& job = request.job;
  if (!job.roles.empty()) {
    return base::invalid_argument("--num-workers: scheduler, servers and workers run one command, not several");
  }
  const DmlcOptions& dmlc = *request.dmlc;
  job.roles = model::dmlc_roles(dmlc.counts);
  MUSTER_RETURN_IF_ERROR(model::check_roles(job.roles));
  job.is_dmlc = true;
  job.placement.np = model::count_ranks(job.roles);
  std::vector<model::HostSpec>& hosts = job.placement.hosts;
  if (hosts.empty() && any_hosts) return base::ok_status();
  if (hosts.empty()) hosts.push_back({.name = "localhost"});
  MUSTER_ASSIGN_OR_RETURN(job.places,
                          model::dmlc_places(dmlc.counts, hosts, dmlc.server_hosts, job.placement.oversubscribe));
  for (const model::HostSpec& host : dmlc.server_hosts) {
    if (std::ranges::find(hosts, host.name, &model::HostSpec::name) == hosts.end()) hosts.push_back(host);
  }
  return base::ok_status();
}

}  // namespace muster::cli::options
