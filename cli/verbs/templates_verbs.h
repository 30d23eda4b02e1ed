// `muster templates`, `muster render` and `muster submit -t`: job templates for users (docs/templates.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/options/template_line.h"

namespace muster::cli::inline verbs {

int run_templates(const std::string& verb, const std::vector<std::string>& arguments);
const CommandDoc& templates_doc();

int run_render(const std::string& verb, const std::vector<std::string>& arguments);
const CommandDoc& render_doc();

// Returns the script for the line. Prints the template's notes on stderr. The error means that the line has no command.
base::Result<std::string> script_of(const std::string& verb, TemplateLine& line);

// Describes how a scheduler takes a script. Pure.
struct SubmitProgram {
  std::vector<std::string> words;  // the words before the script's path; empty if there is no scheduler
  bool reads_stdin = false;        // the program reads the script from stdin, as bsub does
};
SubmitProgram submit_program(const job_templates::Template& job_template);

// Finds the job's id in the output of the scheduler's program. nullopt if there is none.
std::optional<std::string> submitted_id(job_templates::Scheduler scheduler, std::string_view output);

// Returns the error of a submission whose program failed with `failure`. If the program was ended before it answered,
// the message warns that the job may exist all the same. Pure.
base::Status submission_failure(job_templates::Scheduler scheduler, const base::Status& failure);

// True if a program of this host takes the template's scripts. Otherwise prints a remark on stderr.
bool has_scheduler(const job_templates::Template& job_template, const base::Environment& environment);

// Writes the script, passes it to the scheduler and prints the job's id. Returns the exit code.
base::Result<int> submit_script(TemplateLine& line);

}  // namespace muster::cli::verbs
