// `muster render`: prints the script of a template.
#include "base/print.h"
#include "base/strings.h"
#include "cli/help/help.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/verbs/templates_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

base::Result<std::string> script_of(const std::string& verb, TemplateLine& line) {
  for (const std::string& note : line.job_template->notes) base::print_remark("muster {}: {}\n", verb, note);
  if (line.script.command.empty() || line.script.command.front().empty()) {
    return base::invalid_argument("no command is given: add what to run after the options, as in -- python3 train.py");
  }
  if (const Setting* hvdrun = line.own.find("hvdrun")) {
    line.script.hvdrun = hvdrun->value;
  } else {
    MUSTER_ASSIGN_OR_RETURN(const std::string directory, program_directory());
    line.script.hvdrun = directory + "/hvdrun";
  }
  return job_templates::render_script(line.values, line.script);
}

int run_render(const std::string& verb, const std::vector<std::string>& arguments) {
  const auto fail = [&](const base::Status& status) {
    base::print_remark("muster {}: {}\n", verb, base::printable(status.message()));
    return kUsageError;
  };
  const auto& table = *render_doc().table;
  const auto name = named_template(arguments, table);
  if (!name) {
    const VerbCall call(verb, render_doc(), arguments);
    if (call.exit_code()) return *call.exit_code();
    return call.fail("which template? -t NAME; muster templates lists them");
  }
  auto line = read_template_line(arguments, *name, table.flags(), base::Environment::current());
  if (!line.ok()) return fail(line.status());
  if (line->help) {
    const Console console(typed_color(arguments, *line->table), base::Environment::current());
    return console.help("muster " + verb, help_text_for(*line->help, render_doc(), console.look()));
  }
  const auto script = script_of(verb, *line);
  return script.ok() ? print_answer("muster " + verb, *script) : fail(script.status());
}

}  // namespace muster::cli::verbs
