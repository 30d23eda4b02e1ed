// This file reads submit's command line, then gives the job to launcherd or, with -t, to a scheduler.
// Read from the end: run_submit(), then submit_words() and submit_template(); read_line() splits the options.
#include "cli/verbs/submit.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/build_id.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/help/help.h"
#include "cli/hosts/console.h"
#include "cli/hosts/dry_run.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/options/config_file.h"
#include "cli/options/failure_options.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/programs.h"
#include "cli/options/setting_reader.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/queue_options.h"
#include "cli/verbs/submission.h"
#include "cli/verbs/template_job.h"
#include "cli/verbs/templates_verbs.h"
#include "cli/verbs/verb.h"
#include "model/trace_context.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

using std::chrono::milliseconds;

Status read_label(const Setting& setting, v1::SubmitRequest& request) {
  const std::size_t equals = setting.value.find('=');
  if (equals == std::string::npos || equals == 0) {
    return base::invalid_argument("{} must be NAME=VALUE, not '{}'", setting.label, base::printable(setting.value));
  }
  v1::NameValue& label = *request.add_labels();
  label.set_name(setting.value.substr(0, equals));
  label.set_value(setting.value.substr(equals + 1));
  return base::ok_status();
}

void set_duration(milliseconds time, google::protobuf::Duration& into) {
  into.set_seconds(time.count() / 1000);
  into.set_nanos(static_cast<std::int32_t>(time.count() % 1000 * 1'000'000));
}

// Reads submit's own options. Those of the spec go into `request.spec`; the caller merges them over hvdrun's.
Status read_own(const Settings& settings, base::WallTime now, v1::SubmitRequest& request) {
  v1::JobSpec& spec = *request.mutable_spec();
  MUSTER_RETURN_IF_ERROR(read_color(settings).status());
  SettingReader read(settings);
  read.text("name", *request.mutable_name());
  read.text("request-id", *request.mutable_request_id());
  bool is_held = false;
  read.toggle("hold", is_held);
  request.set_held(is_held);
  read.custom("priority", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(const int priority, read_priority(setting));
    request.set_priority(priority);
    return base::ok_status();
  });
  read.custom("after", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(*request.add_after(), read_after(setting));
    return base::ok_status();
  });
  read.custom("array", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_array(), read_array(setting));
    return base::ok_status();
  });
  read.text("notify", *request.mutable_notify());
  read.custom("label", [&](const Setting& setting) { return read_label(setting, request); });
  read.custom("deadline", [&](const Setting& setting) -> Status {
    MUSTER_ASSIGN_OR_RETURN(*spec.mutable_deadline(), read_deadline(setting, now));
    return base::ok_status();
  });
  v1::OnLauncherLoss loss = v1::ON_LAUNCHER_LOSS_HOLD;
  read.choice("on-launcher-loss", std::vector{v1::ON_LAUNCHER_LOSS_HOLD, v1::ON_LAUNCHER_LOSS_KILL}, loss);
  spec.set_on_launcher_loss(loss);
  std::optional<milliseconds> lease;
  read.time("lease", milliseconds(1000), lease);
  if (lease) set_duration(*lease, *spec.mutable_lease());
  std::optional<milliseconds> retention;
  read.time("retention", milliseconds(0), retention);
  if (retention) set_duration(*retention, *request.mutable_retention());
  return read.status();
}

base::Result<ParsedSubmit> read_line(CommandLine line, const base::Environment& environment,
                                     const ParseContext& context, base::WallTime now) {
  ParsedSubmit parsed;
  CommandLine of_hvdrun;
  CommandLine own;
  for (ParsedOption& option : line.options) {
    const auto shared = hvdrun_flags().find(option.spelling);
    const bool is_shared =
        shared && shared->flag->name == option.flag->name && option.flag->group != FlagGroup::kGeneral;
    const bool is_config = option.flag->name == "config-file";
    if (is_shared || is_config) option.flag = &hvdrun_flags().named(option.flag->name);
    (is_shared || is_config ? of_hvdrun : own).options.push_back(std::move(option));
  }
  of_hvdrun.command = std::move(line.command);
  of_hvdrun.is_verbatim = line.is_verbatim;
  MUSTER_ASSIGN_OR_RETURN(auto roles, read_programs(of_hvdrun, environment, hvdrun_flags()));
  MUSTER_RETURN_IF_ERROR(parsed.own.add_layer(settings_of(own)));
  MUSTER_RETURN_IF_ERROR(read_own(parsed.own, now, parsed.own_request));
  if (const Setting* setting = parsed.own.find("tensorboard")) {
    return base::invalid_argument("{}: {}", setting->label, setting->flag->answer_text);
  }
  MUSTER_ASSIGN_OR_RETURN(const Settings settings, gather_settings(of_hvdrun, environment, context.system_config,
                                                                   hvdrun_flags(), {}, NamedFile::kJob));
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(settings));
  MUSTER_RETURN_IF_ERROR(set_roles(std::move(roles), settings, parsed.options.request.job));
  for (const char* name : {"set", "hvdrun", "script", "dry-run"}) {
    if (const Setting* setting = parsed.own.find(name)) {
      return base::invalid_argument("{} belongs to -t", setting->label);
    }
  }
  model::JobSpec& job = parsed.options.request.job;
  MUSTER_RETURN_IF_ERROR(check_elastic_policy(parsed.options.request, true));
  if (job.roles.empty() && (of_hvdrun.command.empty() || of_hvdrun.command.front().empty())) {
    return base::invalid_argument("no command is given: add what to run, as in muster submit -np 4 python3 train.py");
  }
  job.command = std::move(of_hvdrun.command);
  bool is_expanded = false;
  SettingReader(settings).toggle("expand", is_expanded);
  for (std::size_t i = 0; is_expanded && i < job.command.size(); ++i) job.expand.push_back(i);
  job.expands_roles = is_expanded && !job.roles.empty();
  return parsed;
}

ParsedSubmit answered(int exit_code, std::string text) {
  ParsedSubmit parsed;
  parsed.exit_code = exit_code;
  parsed.text = std::move(text);
  return parsed;
}

int fail(const Console& console, const Status& status) {
  const bool is_usage = status.code() == Code::kInvalidArgument || status.code() == Code::kNotFound ||
                        status.code() == Code::kAlreadyExists || status.code() == Code::kFailedPrecondition;
  return console.fail("muster submit", is_usage ? kUsageError : kNotAnswered, base::printable(status.message()));
}

}  // namespace

std::string submit_answer(const std::string& job_id, bool as_json) {
  if (!as_json) return job_id + "\n";
  v1::SubmitResponse answer;
  answer.set_job_id(job_id);
  return proto::message_line(answer);
}

ParsedSubmit parse_submit(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context, base::WallTime now) {
  auto line = split_command_line(arguments, *submit_doc().table);
  if (line.ok() && line->is_answered) {
    ParsedSubmit parsed = answered(0, help_text_for(*line->options.back().flag, submit_doc(), context.look));
    parsed.is_help = true;
    return parsed;
  }
  auto parsed =
      line.ok() ? read_line(std::move(*line), environment, context, now) : base::Result<ParsedSubmit>(line.status());
  if (parsed.ok()) return std::move(*parsed);
  return answered(kUsageError, fmt::format("muster submit: {}\n", parsed.status().message()));
}

namespace {

// Gives the job to launcherd. `of_template` holds the values of its template's parameters; nullptr if it has no
// template.
int submit_words(const std::vector<std::string>& arguments, const job_templates::Values* of_template) {
  const base::Environment environment = base::Environment::current();
  const Console console(typed_color(arguments, *submit_doc().table), environment);
  const ParseContext context{.build_id = base::build_id(), .look = console.look()};
  ParsedSubmit parsed = parse_submit(arguments, environment, context, base::SystemClock().wall());
  if (parsed.exit_code) return console.reply("muster submit", {*parsed.exit_code, parsed.text, parsed.is_help});
  if (of_template != nullptr) take_demand(*of_template, parsed.options.request);
  for (const std::string& note : parsed.options.output.notes) base::print_remark("muster submit: {}\n", note);
  if (const auto parent = model::inherited_trace(environment); !parent.ok()) {
    base::print_remark("muster submit: no span is the parent of the job: {}\n", parent.status().message());
  }
  parsed.options.request.job.environment.python_folders = python_folders();
  auto request = make_submission(parsed.options.request, parsed.options.reach.contain, environment,
                                 logical_working_directory(environment));
  if (!request.ok()) return fail(console, request.status());
  request->MergeFrom(parsed.own_request);
  const auto launcher = need_launcherd(parsed.own, environment);
  if (!launcher.ok()) return fail(console, launcher.status());
  const Status named = name_by_ids(*launcher, *request->mutable_after());
  if (!named.ok()) return fail(console, named.with_context("--after"));
  const auto job = submit_once(*launcher, std::move(*request));
  if (!job.ok()) return fail(console, job.status());
  return print_answer("muster submit", submit_answer(*job, parsed.own.find("json") != nullptr));
}

// Returns the rows of submit that are not hvdrun's.
std::vector<Flag> own_flags() {
  std::vector<Flag> own;
  for (const Flag& flag : submit_doc().table->flags()) {
    const bool is_own = flag.group == FlagGroup::kGeneral && flag.name != "config-file";
    if (is_own) own.push_back(flag);
  }
  return own;
}

// Refuses those of submit's own options that only launcherd understands.
Status check_for_scheduler(const TemplateLine& line) {
  constexpr std::string_view kFits[] = {"template", "set", "hvdrun", "script", "dry-run", "json", "color"};
  for (const Setting& setting : line.own.entries()) {
    if (std::ranges::find(kFits, setting.flag->name) != std::end(kFits)) continue;
    return base::invalid_argument("{} is for launcherd, and a scheduler takes this job: leave it out", setting.label);
  }
  return base::ok_status();
}

// Returns submit's own options, and those of hvdrun that launcherd understands. launcherd knows itself how to reach its
// hosts.
base::Result<std::vector<std::string>> words_for_launcherd(const TemplateLine& line) {
  std::vector<std::string> words;
  for (const Setting& setting : line.own.entries()) {
    constexpr std::string_view kOfTemplates[] = {"template", "set", "hvdrun", "script", "color"};
    if (std::ranges::find(kOfTemplates, setting.flag->name) != std::end(kOfTemplates)) continue;
    words.push_back(setting.label);
    if (!setting.flag->is_switch()) words.push_back(setting.value);
  }
  const FlagTable& table = *submit_doc().table;
  // launcherd checks the health of its hosts itself, so drop these options.
  const auto takes = [&](std::string_view option) {
    return option != "spare" && option != "health-check" && table.find(fmt::format("--{}", option)).has_value();
  };
  MUSTER_ASSIGN_OR_RETURN(const auto job, hvdrun_words(line, takes));
  words.insert(words.end(), job.begin(), job.end());
  return words;
}

// Shows which rank would run where on the template's hosts. The real hosts do not matter.
int show_template(const TemplateLine& line, const base::Environment& environment) {
  ParsedHvdrun parsed = parse_template_dry_run(line, environment, {.build_id = base::build_id()});
  if (parsed.exit_code) {
    (void)base::print_text(stderr, parsed.text);
    return *parsed.exit_code;
  }
  return run_dry(std::move(parsed.options), environment, [](const auto&, const auto&) {
    return std::vector<base::Result<model::NodeShape>>{base::invalid_argument("no host is asked")};
  });
}

int submit_template(const std::vector<std::string>& arguments, const std::string& name) {
  const base::Environment environment = base::Environment::current();
  const Console console(typed_color(arguments, *submit_doc().table), environment);
  auto line = read_template_line(arguments, name, own_flags(), environment);
  if (!line.ok()) return fail(console, line.status());
  if (line->help) return console.help("muster submit", help_text_for(*line->help, submit_doc(), console.look()));
  if (line->own.find("dry-run") != nullptr) return show_template(*line, environment);
  if (const Status complete = line->values.check_complete(); !complete.ok()) return fail(console, complete);
  if (has_scheduler(*line->job_template, environment)) {
    if (const Status fits = check_for_scheduler(*line); !fits.ok()) return fail(console, fits);
    const auto answer = submit_script(*line);
    return answer.ok() ? *answer : fail(console, answer.status());
  }
  const std::string left_out = job_templates::left_out_note(*line->job_template);
  if (!left_out.empty()) base::print_remark("muster submit: {}\n", left_out);
  for (const std::string& note : line->job_template->notes) base::print_remark("muster submit: {}\n", note);
  const auto words = words_for_launcherd(*line);
  return words.ok() ? submit_words(*words, &line->values) : fail(console, words.status());
}

}  // namespace

int run_submit(const std::string&, const std::vector<std::string>& arguments) {
  const auto name = named_template(arguments, *submit_doc().table);
  return name ? submit_template(arguments, *name) : submit_words(arguments, nullptr);
}

}  // namespace muster::cli::verbs
