// muster: one program for all commands except hvdrun. Each verb is a row of a table here and has a file of its own.
// Read from the end: muster_main(), answer_option(), then the tables.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/build_id.h"
#include "base/strings.h"
#include "cli/doctor/agents.h"
#include "cli/doctor/cleanup.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/run_agents.h"
#include "cli/doctor/run_cleanup.h"
#include "cli/doctor/run_doctor.h"
#include "cli/ensemble/ensemble.h"
#include "cli/foreign/dmlc.h"
#include "cli/foreign/torchrun.h"
#include "cli/help/completion_script.h"
#include "cli/help/flag_row.h"
#include "cli/help/help.h"
#include "cli/help/man_page.h"
#include "cli/hosts/console.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "cli/run/run_job.h"
#include "cli/top/top.h"
#include "cli/verbs/compat.h"
#include "cli/verbs/complete.h"
#include "cli/verbs/cp.h"
#include "cli/verbs/exec.h"
#include "cli/verbs/job_report.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/queue_verbs.h"
#include "cli/verbs/resize.h"
#include "cli/verbs/stacks.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/templates_verbs.h"
#include "cli/verbs/trace.h"

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

struct Verb {
  std::string_view name;
  std::string_view summary;  // at most 52 columns, so that help has one line for each verb
  const CommandDoc& (*doc)();
  int (*run)(const std::string& name, const Words& arguments);
};

int run_torchrun(const std::string& name, const Words& arguments) {
  return run_command(typed_color(arguments, torchrun_flags()), [&](const auto& environment, const TextLook& look) {
    return parse_torchrun(name, arguments, environment, {.build_id = base::build_id(), .look = look});
  });
}

int run_dmlc(const std::string&, const Words& arguments) {
  return run_command(typed_color(arguments, dmlc_flags()), [&](const auto& environment, const TextLook& look) {
    return parse_dmlc(arguments, environment, {.build_id = base::build_id(), .look = look});
  });
}

int run_doctor_verb(const std::string&, const Words& arguments) {
  return run_doctor(arguments);
}

int run_cleanup_verb(const std::string&, const Words& arguments) {
  return run_cleanup(arguments);
}

int run_agents_verb(const std::string&, const Words& arguments) {
  return run_agents(arguments);
}

struct VerbGroup {
  std::string_view title;
  std::span<const Verb> verbs;
};

constexpr auto kJobVerbs =
    std::to_array<Verb>({{"submit", "give a job to launcherd", submit_doc, run_submit},
                         {"jobs", "the jobs that run or wait", jobs_doc, run_jobs},
                         {"status", "a job with its ranks, or the reason it waits", status_doc, run_status},
                         {"logs", "the output of a job's ranks", logs_doc, run_logs},
                         {"attach", "follow a job as if it ran in the foreground", attach_doc, run_attach},
                         {"wait", "wait for a job's end; the exit code is the job's", wait_doc, run_wait},
                         {"kill", "end jobs", kill_doc, run_kill},
                         {"hold", "keep waiting jobs of launcherd from starting", hold_doc, run_hold},
                         {"release", "let held jobs start", release_doc, run_release},
                         {"update", "change a job's priority, deadline, or what it awaits", update_doc, run_update},
                         {"exec", "run a command beside a rank of a running job", exec_doc, run_exec_verb},
                         {"shell", "open a shell beside a rank of a running job", shell_doc, run_shell},
                         {"cp", "copy files to or from a rank of a running job", cp_doc, run_cp},
                         {"rerun", "submit a job of launcherd once more", rerun_doc, run_rerun},
                         {"resize", "give a running job more or fewer ranks", resize_doc, run_resize}});
constexpr auto kInsightVerbs =
    std::to_array<Verb>({{"top", "hosts and jobs, live", top_doc, run_top},
                         {"events", "the events of a job", events_doc, run_events},
                         {"trace", "a job as a trace for Perfetto", trace_doc, run_trace},
                         {"stacks", "show what every rank of a running job is doing", stacks_doc, run_stacks},
                         {"report", "a page about jobs, with time lines and scaling", job_report_doc, run_job_report}});
constexpr auto kHostVerbs =
    std::to_array<Verb>({{"hosts", "launcherd's hosts, their slots and what uses them", hosts_doc, run_hosts},
                         {"doctor", "check whether jobs can run on hosts", doctor_doc, run_doctor_verb},
                         {"cleanup", "find and end what dead jobs left on hosts", cleanup_doc, run_cleanup_verb},
                         {"agents", "the agent programs stored on hosts", agents_doc, run_agents_verb}});
constexpr auto kForegroundVerbs = std::to_array<Verb>(
    {{"torchrun", "run a torch program, by torchrun's command line", torchrun_doc, run_torchrun},
     {"torch.distributed.launch", "the same, with --local_rank=N for the script", torchrun_doc, run_torchrun},
     {"dmlc", "run MXNet's parameter server, as launch.py does", dmlc_doc, run_dmlc},
     {"ensemble", "run many jobs over the hosts of one allocation", ensemble_doc, run_ensemble}});
constexpr auto kSiteVerbs =
    std::to_array<Verb>({{"templates", "list the job templates", templates_doc, run_templates},
                         {"render", "print a job script made from a template", render_doc, run_render},
                         {"compat", "which frameworks' clients this build was tried with", compat_doc, run_compat}});

constexpr auto kVerbGroups = std::to_array<VerbGroup>({{"Jobs", kJobVerbs},
                                                       {"Looking into a job", kInsightVerbs},
                                                       {"Hosts", kHostVerbs},
                                                       {"Running in the foreground", kForegroundVerbs},
                                                       {"Site and build", kSiteVerbs}});

// Returns the verb with this name or alias. nullptr if there is none.
const Verb* find_verb(std::string_view name) {
  for (const VerbGroup& group : kVerbGroups) {
    for (const Verb& verb : group.verbs) {
      const auto aliases = verb.doc().aliases;
      if (verb.name == name || std::ranges::find(aliases, name) != aliases.end()) return &verb;
    }
  }
  return nullptr;
}

const FlagTable& muster_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_group(
        FlagGroup::kGeneral,
        {toggle("man", {{"--man", "true"}}, "Print the manual page of muster; muster --man VERB: that of a verb.")
             .stands_alone(),
         option("completion", {"--completion"}, "bash|zsh|fish",
                "Print the completion of verbs and options for a shell: eval \"$(muster --completion bash)\".")
             .stands_alone(),
         toggle("version", {{"-v", "true"}, {"--version", "true"}}, "Print the version.").stands_alone(), color_row()},
        flags);
    add_group(FlagGroup::kGeneral, help_rows(), flags);
    return FlagTable(std::move(flags));
  }();
  return kTable;
}

std::vector<CommandGroup> command_groups() {
  std::vector<CommandGroup> groups;
  for (const VerbGroup& group : kVerbGroups) {
    CommandGroup& shown = groups.emplace_back(CommandGroup{group.title, {}});
    for (const Verb& verb : group.verbs) {
      const bool has_page = verb.doc().name == fmt::format("muster {}", verb.name);
      shown.commands.push_back({verb.name, verb.summary, has_page});
    }
  }
  return groups;
}

const CommandDoc& muster_doc() {
  static const CommandDoc kDoc = {
      .name = "muster",
      .summary = "submit, watch and end distributed jobs, and check their hosts",
      .usage = "[options] VERB [options of the verb]",
      .description =
          "Gives jobs to launcherd, shows them and ends them. Most verbs also know the jobs that an hvdrun of yours "
          "runs on this host. muster help VERB explains a verb. To start a program in the foreground, use hvdrun.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &muster_flags(),
      .notes =
          "Other names: ps, ls and list are jobs; describe and show are status; cancel and stop are kill.\n\nA long "
          "help text goes through a pager: $MUSTER_PAGER, else $PAGER, else less. An empty one or cat means none.",
      .examples = {{"muster submit -np 16 --name night python3 train.py", "give a job to launcherd"},
                   {"muster logs -f night", "follow its output"},
                   {"muster help submit", "explain a verb"},
                   {"muster --man stacks | man -l -", "the manual page of a verb"}},
      .exit_codes = {{"0", "the question was answered"},
                     {"2", "a mistake in the command line"},
                     {"others", "those of the verb: muster help VERB"}},
      .commands = command_groups()};
  return kDoc;
}

int print(const std::string& text) {
  return print_answer("muster", text);
}

int fail(const Console& console, const std::string& message) {
  return console.fail("muster", kUsageError, message);
}

int fail_unknown(const Console& console, const std::string& name) {
  // If two words are equally near, nearest_word() returns the first one. Verbs come first, because their other names
  // are short and near to many typos.
  Words known;
  Words aliases = {"help"};
  for (const VerbGroup& group : kVerbGroups) {
    for (const Verb& verb : group.verbs) {
      known.emplace_back(verb.name);
      for (const std::string_view alias : verb.doc().aliases) aliases.emplace_back(alias);
    }
  }
  known.insert(known.end(), aliases.begin(), aliases.end());
  const auto nearest = base::nearest_word(name, known);
  return fail(console, fmt::format("unknown verb {}{} (muster --help lists them)", base::printable(name),
                                   nearest ? fmt::format(", did you mean {}?", *nearest) : ""));
}

// Handles muster --man and muster --man VERB.
int print_man(const Console& console, const Words& words) {
  const auto named = std::ranges::find(words, "--man") + 1;
  if (named == words.end() || named->starts_with('-')) return print(man_page(muster_doc()));
  const Verb* const verb = find_verb(*named);
  return verb == nullptr ? fail_unknown(console, *named) : print(man_page(verb->doc()));
}

int print_completion(const Console& console, const std::string& shell) {
  const auto script = completion_script(shell, "muster");
  return script ? print(*script)
                : fail(console,
                       fmt::format("--completion must be one of bash, zsh, fish, not '{}'", base::printable(shell)));
}

// Answers an option that stands alone.
int answer_option(const Console& console, const ParsedOption& option, const Words& words) {
  if (is_help(option)) return console.help("muster", help_text_for(*option.flag, muster_doc(), console.look()));
  if (option.flag->name == "man") return print_man(console, words);
  if (option.flag->name == "completion") return print_completion(console, option.value);
  return print(version_text("muster", base::build_id()));
}

// Handles muster __complete WORD..., by which a shell asks what fits.
int complete(const Words& words) {
  CompletedProgram program{.name = "muster", .verbs = {}, .own = &muster_flags()};
  std::vector<std::string_view> names;
  for (const VerbGroup& group : kVerbGroups) {
    for (const Verb& verb : group.verbs) {
      const CommandDoc& doc = verb.doc();
      program.verbs.push_back({.name = verb.name, .table = doc.table, .summary = verb.summary, .aliases = doc.aliases});
      names.push_back(verb.name);
    }
  }
  const FlagTable help({}, {{.choices = names}});
  program.verbs.push_back({.name = "help", .table = &help, .summary = "explain a verb"});
  return run_complete(program, words);
}

int muster_main(const Words& words) {
  if (!words.empty() && words.front() == kCompletionWord) return complete({words.begin() + 1, words.end()});
  const Console console(typed_color(words, muster_flags()), base::Environment::current());
  auto line = split_command_line(words, muster_flags());
  if (!line.ok()) return fail(console, line.status().message());
  if (line->is_answered) return answer_option(console, line->options.back(), words);
  Settings settings;
  base::Status set = settings.add_layer(settings_of(*line));
  if (set.ok()) set = read_color(settings).status();
  if (!set.ok()) return fail(console, set.message());
  Words& command = line->command;
  if (command.empty()) return fail(console, "a verb is missing: muster --help lists them");
  // "muster help VERB" is "muster VERB --help", and "muster help" is "muster --help".
  const bool asks_help = command.front() == "help";
  if (asks_help) command.erase(command.begin());
  if (asks_help && command.size() > 1) {
    return fail(console, fmt::format("help explains one verb: muster help {}", base::printable(command.back())));
  }
  if (asks_help && !command.empty() && command.front().starts_with('-')) {
    return fail(console, fmt::format("'{}' stands behind help: write it before, as in muster --color never help submit",
                                     base::printable(command.front())));
  }
  if (command.empty() || (asks_help && command.front() == "help")) {
    return console.help("muster", help_text(muster_doc(), console.look()));
  }
  const Verb* const verb = find_verb(command.front());
  if (verb == nullptr) return fail_unknown(console, command.front());
  Words arguments(command.begin() + 1, command.end());
  if (const Setting* color = settings.find("color")) arguments.insert(arguments.begin(), "--color=" + color->value);
  if (asks_help) arguments.insert(arguments.begin(), "--help");
  return verb->run(std::string(verb->name), arguments);
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::cli::hold_standard_streams(argv);
  return muster::cli::muster_main({argv + 1, argv + argc});
}
