// The verbs on existing jobs: `muster jobs`, `status`, `kill`, `events`. They ask launchers (cli/verbs/found_jobs.h).
// Each run_…() returns its exit code: 2 for a mistake in the command line or an unknown job.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"
#include "cli/verbs/found_jobs.h"

namespace muster::cli::inline verbs {

int run_jobs(const std::string& verb, const std::vector<std::string>& arguments);
int run_status(const std::string& verb, const std::vector<std::string>& arguments);
int run_kill(const std::string& verb, const std::vector<std::string>& arguments);
int run_events(const std::string& verb, const std::vector<std::string>& arguments);

// Reports that a launcher did not answer a question about this job, or refused it. Returns the exit code.
int job_not_answered(const VerbCall& call, const FoundJob& job, const base::Status& status);

// Prints the text; with --json, asks for the job and prints it as a muster.v1.Job instead. Returns the exit code.
int print_job(const VerbCall& call, const FoundJob& job, const std::string& text);

// Returns the line for an empty list of `muster jobs`.
std::string no_jobs_remark(bool all, bool filtered);

const CommandDoc& jobs_doc();
const CommandDoc& status_doc();
const CommandDoc& kill_doc();
const CommandDoc& events_doc();

}  // namespace muster::cli::verbs
