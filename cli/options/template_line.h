// A command line of a verb that takes a job template: the template's parameters are options like any other, hvdrun's
// options go on to hvdrun, and the rest is the command. Reads the template's files.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/help/flag_row.h"
#include "cli/options/settings.h"
#include "job_templates/parameters.h"
#include "job_templates/script.h"

namespace muster::cli::inline options {

struct TemplateLine {
  std::unique_ptr<job_templates::Template> job_template;  // never null
  job_templates::Values values;                           // of job_template
  job_templates::ScriptWish wish;                         // extra, left_out and command
  Settings own;                                           // the verb's options
  bool wants_help = false;

  // Where the options of this line are described; they live as long as this.
  std::shared_ptr<const FlagTable> table;
  std::shared_ptr<const std::deque<std::string>> names;
};

// -t and --template, --set, --hvdrun.
std::vector<FlagRow> with_template_rows(std::vector<FlagRow> rows);

// The value of --set: NAME=VALUE, a parameter of the template.
base::Status set_parameter(std::string_view said, job_templates::Values& values);

// The value of -t among the options, before the command; nullopt: there is none. `table` says how many values the
// verb's other options have; an unknown one is taken for a parameter with a value.
std::optional<std::string> named_template(const std::vector<std::string>& arguments, const FlagTable& table);

// `own`: the verb's rows. What has the name of a parameter is the parameter, also by hvdrun's other spellings of it
// (-N for ranks-per-node); only -t, --set, --hvdrun,
// --script and --help go before it.
base::Result<TemplateLine> read_template_line(const std::vector<std::string>& arguments, const std::string& name,
                                              const std::vector<Flag>& own, const base::Environment& environment);

// The line of hvdrun's that the script would have, without hvdrun itself; variables are options of it.
// `takes`: which of the template's options are wanted; empty: all.
base::Result<std::vector<std::string>> hvdrun_words(const TemplateLine& line,
                                                    const std::function<bool(std::string_view option)>& takes = {});

}  // namespace muster::cli::options
