// Reads the command line of a verb that takes a job template. The template's parameters are ordinary options. hvdrun's
// options go on to hvdrun. The remaining words are the command. Reads the template's files.
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
  job_templates::Values values;                           // the values of job_template's parameters
  job_templates::ScriptRequest script;                    // only extra, reach, left_out and command are set
  Settings own;                                           // the verb's options
  const Flag* help = nullptr;                             // the row of -h or --help, if it is given

  // `table` and `names` hold the descriptions of the line's options. They must live as long as the line.
  std::shared_ptr<const FlagTable> table;
  std::shared_ptr<const std::deque<std::string>> names;
};

// Adds the rows of -t (--template), --set and --hvdrun.
std::vector<FlagRow> with_template_rows(std::vector<FlagRow> rows);

// Sets the parameter of the template that --set names. `assignment` is NAME=VALUE.
base::Status set_parameter(std::string_view assignment, job_templates::Values& values);

// Returns the value of -t among the options before the command. nullopt if -t is not given.
// `table` tells how many values the verb's other options have. An unknown option counts as a parameter with one value.
std::optional<std::string> named_template(const std::vector<std::string>& arguments, const FlagTable& table);

// `own` are the rows of the verb. If a parameter has the name of an option, the parameter wins. It also gets hvdrun's
// other spellings, such as -N for ranks-per-node. Only -t, --set, --hvdrun, --script and --help win over a parameter.
base::Result<TemplateLine> read_template_line(const std::vector<std::string>& arguments, const std::string& name,
                                              const std::vector<Flag>& own, const base::Environment& environment);

// Returns the hvdrun command line that the script would contain, without the word hvdrun. Variables become --env
// options.
// `takes` tells which of the template's options to include. Empty means all.
base::Result<std::vector<std::string>> hvdrun_words(const TemplateLine& line,
                                                    const std::function<bool(std::string_view option)>& takes = {});

}  // namespace muster::cli::options
