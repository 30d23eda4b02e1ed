// The verbs on running jobs: `muster jobs`, `status`, `kill`, `events`. They ask the launchers of this user on this
// host (cli/found_jobs.h). Each returns its exit code: 2 for a mistake in the command line or a job that there is not.
#pragma once

#include <string>
#include <vector>

#include "cli/command_doc.h"

namespace muster::cli {

int run_jobs(const std::string& verb, const std::vector<std::string>& arguments);
int run_status(const std::string& verb, const std::vector<std::string>& arguments);
int run_kill(const std::string& verb, const std::vector<std::string>& arguments);
int run_events(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& jobs_doc();
const CommandDoc& status_doc();
const CommandDoc& kill_doc();
const CommandDoc& events_doc();

}  // namespace muster::cli
