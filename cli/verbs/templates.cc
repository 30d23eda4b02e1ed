// `muster templates`: lists the job templates, or shows one.
#include <algorithm>

#include "base/strings.h"
#include "cli/options/template_defaults.h"
#include "cli/verbs/templates_verbs.h"
#include "cli/verbs/verb.h"
#include "job_templates/load.h"
#include "proto/message_json.h"
#include "proto/muster/v1/template.pb.h"

namespace muster::cli::inline verbs {
namespace {

using job_templates::Parameter;
using job_templates::Template;

constexpr std::string_view kTypes[] = {"string", "int", "time", "choice", "bool"};

std::string_view type_of(const Parameter& parameter) {
  return kTypes[static_cast<std::size_t>(parameter.type)];
}

std::string first_line(const std::string& text) {
  return base::printable(text.substr(0, text.find('\n')));
}

v1::JobTemplate message_of(const Template& job_template) {
  v1::JobTemplate message;
  message.set_name(base::valid_utf8(job_template.name));
  message.set_help(base::valid_utf8(job_template.help));
  message.set_scheduler(std::string(job_templates::display_name(job_template.scheduler)));
  message.set_origin(base::valid_utf8(job_template.origin));
  for (const Parameter& parameter : job_template.parameters) {
    v1::TemplateParameter& entry = *message.add_parameters();
    entry.set_name(parameter.name);
    entry.set_type(std::string(type_of(parameter)));
    entry.set_has_default(parameter.standard.has_value());
    entry.set_default_value(base::valid_utf8(parameter.standard.value_or("")));
    entry.set_required(parameter.is_required);
    for (const std::string& choice : parameter.choices) entry.add_choices(base::valid_utf8(choice));
    entry.set_help(base::valid_utf8(parameter.help));
  }
  return message;
}

// Returns the template's YAML with a description as comments in front, so that the text is a valid template again.
std::string show(const Template& job_template) {
  std::string text = fmt::format("# {} ({})\n#\n# Parameters:\n", base::printable(job_template.name),
                                 base::printable(job_template.origin));
  for (const Parameter& parameter : job_template.parameters) {
    std::string value = fmt::format("{}", type_of(parameter));
    if (!parameter.choices.empty()) value = base::join(parameter.choices, "|");
    if (parameter.standard) value += ", " + *parameter.standard;
    if (parameter.is_required && !parameter.standard) value += ", needed";
    text += fmt::format("#   --{:<18} {}{}\n", parameter.name, base::printable(parameter.help),
                        base::printable(fmt::format(" ({})", value)));
  }
  return text + "\n" + job_templates::format_document(job_template.merged);
}

int list(const VerbCall& call, const job_templates::Sources& sources) {
  std::string table = fmt::format("{:<14}{:<11}{:<10}{}\n", "template", "scheduler", "origin", "what for");
  std::string json;
  int code = 0;
  for (const std::string& name : job_templates::template_names(sources)) {
    const auto loaded = job_templates::load_template(name, sources);
    if (!loaded.ok()) {
      code = call.fail(base::printable(loaded.status().message()), kNotAnswered);
      v1::JobTemplate message;
      message.set_name(base::valid_utf8(name));
      message.set_error(base::valid_utf8(loaded.status().message()));
      json += proto::message_line(message);
      continue;
    }
    const std::string_view scheduler = job_templates::display_name(loaded->scheduler);
    table += fmt::format("{:<14}{:<11}{:<10}{}\n", base::printable(name), scheduler.empty() ? "-" : scheduler,
                         loaded->origin == "built in" ? "built in" : "own", first_line(loaded->help));
    json += proto::message_line(message_of(*loaded));
  }
  const int printed = call.print(call.has("json") ? json : table);
  return printed != 0 ? printed : code;
}

}  // namespace

int run_templates(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, templates_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto sources = job_templates::standard_sources(base::Environment::current(), ".");
  if (call.has("names")) {
    std::string names;
    for (const std::string& name : job_templates::template_names(sources)) names += name + "\n";
    return call.print(names);
  }
  if (call.words().empty()) return list(call, sources);
  if (call.words().front() != "show" || call.words().size() > 2) {
    return call.fail(fmt::format("'{}' is not understood: muster templates show NAME",
                                 base::printable(base::join(call.words(), " "))));
  }
  if (call.words().size() < 2) return call.fail("which template? muster templates show NAME");
  const auto loaded = job_templates::load_template(call.words()[1], sources);
  if (!loaded.ok()) return call.fail(loaded.status());
  return call.print(call.has("json") ? proto::message_line(message_of(*loaded)) : show(*loaded));
}

}  // namespace muster::cli::verbs
