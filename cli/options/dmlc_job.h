// Describes a job of MXNet's parameter server: hvdrun --runtime mxnet --num-workers W [--num-servers S].
#pragma once

#include "base/status.h"
#include "cli/options/job_request.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

// Reads --num-workers and --num-servers. Call it after --runtime is read. -np beside them is an error.
void read_dmlc(SettingReader& read, JobRequest& request);

// Sets the roles of a DMLC job. Call it once the hosts are known. It does not change a job of another runtime.
// If request.hosts is empty, the job runs on this host. With `any_hosts`, request.hosts stays empty and launcherd
// chooses the hosts.
// INVALID_ARGUMENT if the command line names several programs. Errors of model::dmlc_places() are passed on.
base::Status settle_dmlc(JobRequest& request, bool any_hosts);

}  // namespace muster::cli::options
