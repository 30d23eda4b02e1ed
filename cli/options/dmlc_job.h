// MXNet's parameter server as a job: hvdrun --runtime mxnet --num-workers W [--num-servers S].
#pragma once

#include "base/status.h"
#include "cli/options/options.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

// --num-workers and --num-servers, after --runtime.
void read_dmlc(SettingReader& read, HvdrunOptions& options);

// Makes the roles, once the hosts are known; without hosts where `any_hosts` (launcherd chooses them), else on this
// one. Nothing to do for other jobs. INVALID_ARGUMENT: the command line says other programs, or numbers of ranks.
base::Status settle_dmlc(HvdrunOptions& options, bool any_hosts);

}  // namespace muster::cli::options
