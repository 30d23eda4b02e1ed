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

// The script of a line; checks that there is a command. The notes of the template are said on stderr.
base::Result<std::string> script_of(const std::string& verb, TemplateLine& line);

// How a scheduler takes a script and what it answers. Pure.
struct SubmitProgram {
  std::vector<std::string> words;  // before the script's path; empty: there is no scheduler
  bool reads_stdin = false;        // bsub reads the script
};
SubmitProgram submit_program(const job_templates::Template& job_template);

// The job's id in what the scheduler's program has printed; nullopt: none is found.
std::optional<std::string> submitted_id(job_templates::Scheduler scheduler, std::string_view output);

// What became of a submission whose program has failed with `failure`: one that was ended before it had answered may
// have handed the job over all the same. Pure.
base::Status submission_failure(job_templates::Scheduler scheduler, const base::Status& failure);

// Whether a program of this host takes the template's scripts; says on stderr where none does.
bool has_scheduler(const job_templates::Template& job_template, const base::Environment& environment);

// Writes the script, gives it to the scheduler and prints the job's id; the exit code.
base::Result<int> submit_script(TemplateLine& line);

}  // namespace muster::cli::verbs
