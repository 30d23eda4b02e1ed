// A job's script for its site's scheduler: complete, commented, and clean for shellcheck. Nothing that was given at a
// command line is ever code in it: values are quoted, or refused where a scheduler's directive cannot quote. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job_templates/plan.h"

namespace muster::job_templates {

struct ScriptWish {
  std::string hvdrun = "hvdrun";                // the program
  std::vector<std::vector<std::string>> extra;  // more of hvdrun's options, each with its value; they win
  std::vector<std::vector<std::string>> reach;  // of `extra`: which hosts, and how they are reached
  std::vector<std::string_view> left_out;       // options of the template that those overrule
  std::vector<std::string> command;             // never empty
};

// Ends with the exit code of the command.
base::Result<std::string> render_script(const Values& values, const ScriptWish& wish);

// The scheduler's lines, whole: "#PBS -A physics". A value with a character that such a line cannot hold is refused.
base::Result<std::vector<std::string>> render_directives(const Values& values);

// "#PBS"; empty where there is no scheduler.
std::string_view directive_prefix(Scheduler scheduler);

}  // namespace muster::job_templates
