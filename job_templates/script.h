// Writes a job's script for its site's scheduler: complete, commented, and clean for shellcheck. Pure.
//
// Errors: text from a command line never becomes code. Values are quoted. INVALID_ARGUMENT if a value stands in a
// scheduler's directive, which cannot quote, and has a character that would need quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job_templates/plan.h"

namespace muster::job_templates {

struct ScriptRequest {
  std::string hvdrun = "hvdrun";                // the name or path of hvdrun
  std::vector<std::vector<std::string>> extra;  // more options of hvdrun, with values; they override the template's
  // The options of `extra` that choose the hosts and the way to reach them.
  std::vector<std::vector<std::string>> reach;
  std::vector<std::string_view> left_out;  // options of the template that `extra` overrules
  std::vector<std::string> command;        // never empty
};

// The script ends with the command's exit code.
base::Result<std::string> render_script(const Values& values, const ScriptRequest& request);

// Returns the scheduler's lines: "#PBS -A physics". Refuses a value with a character that such a line cannot hold.
base::Result<std::vector<std::string>> render_directives(const Values& values);

// Returns the beginning of the scheduler's lines, such as "#PBS". Empty for kNone.
std::string_view directive_prefix(Scheduler scheduler);

}  // namespace muster::job_templates
