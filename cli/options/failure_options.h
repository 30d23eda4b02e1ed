// Reads and checks the options of failures, spare hosts and elastic jobs: --on-failure, --max-restarts, --spares,
// --progress-text, --progress-file, --failed-host-cooldown, --hang-timeout, --on-hang, --elastic-policy, --min-np,
// --max-np and Horovod's elastic options.
//
// Errors: the reader keeps the first mistake, with the option and where it was given.
#pragma once

#include <optional>

#include "cli/options/options.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

// Reads --spares, which is a number or a list of hosts. A list implies --on-failure replace.
void read_spares(SettingReader& read, JobRequest& request);

// --min-np makes the ranks of a job change while it runs. Without it the options are checked, so that mistakes are
// found, and matter only when the job starts; a note tells the user so.
void read_elastic(SettingReader& read, ElasticOptions& elastic, std::optional<model::ElasticSpec>& live);

// Refuses sizes that contradict each other, before the job waits for slots.
void check_sizes(SettingReader& read, const JobRequest& request);

// Reads what happens after a failure. Call it after read_elastic() and after the placement was read.
void read_failure(SettingReader& read, JobRequest& request);

// INVALID_ARGUMENT: --elastic-policy for a job that runs without launcherd, or that keeps its size.
base::Status check_elastic_policy(const JobRequest& request, bool is_for_launcherd);

// INVALID_ARGUMENT: an option about what happens after a failure has no effect in this job. Call it when all options
// are read.
base::Status check_restarts(const JobRequest& request);

}  // namespace muster::cli::options
