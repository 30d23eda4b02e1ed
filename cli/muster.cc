// muster: one program for all commands except hvdrun. Each verb is a row of kVerbs and has a file of its own.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/build_id.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/doctor/cleanup.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/run_cleanup.h"
#include "cli/doctor/run_doctor.h"
#include "cli/ensemble/ensemble.h"
#include "cli/foreign/dmlc.h"
#include "cli/foreign/torchrun.h"
#include "cli/help/completion_script.h"
#include "cli/help/flag_row.h"
#include "cli/help/help.h"
#include "cli/help/man_page.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/exit_codes.h"
#include "cli/run/run_job.h"
#include "cli/top/top.h"
#include "cli/verbs/compat.h"
#include "cli/verbs/complete.h"
#include "cli/verbs/job_report.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/queue_verbs.h"
#include "cli/verbs/resize.h"
#include "cli/verbs/stacks.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/templates_verbs.h"

namespace muster::cli {
namespace {

using Words = std::vector<std::string>;

struct Verb {
  std::string_view name;
  std::string_view summary;
  const CommandDoc& (*doc)();
  int (*run)(const std::string& name, const Words& arguments);
};

int run_torchrun(const std::string& name, const Words& arguments) {
  return run_command([&](const base::Environment& environment) {
    return parse_torchrun(name, arguments, environment, {.build_id = base::build_id()});
  });
}

int run_dmlc(const std::string&, const Words& arguments) {
  return run_command([&](const base::Environment& environment) {
    return parse_dmlc(arguments, environment, {.build_id = base::build_id()});
  });
}

int run_doctor_verb(const std::string&, const Words& arguments) {
  return run_doctor(arguments);
}

int run_cleanup_verb(const std::string&, const Words& arguments) {
  return run_cleanup(arguments);
}

constexpr auto kVerbs = std::to_array<Verb>(
    {{"jobs", "the jobs that run or wait", jobs_doc, run_jobs},
     {"status", "a job with its hosts and ranks, or the reason it waits", status_doc, run_status},
     {"submit", "give a job to launcherd", submit_doc, run_submit},
     {"templates", "list the job templates", templates_doc, run_templates},
     {"render", "print a job script made from a template", render_doc, run_render},
     {"logs", "the output of a job's ranks", logs_doc, run_logs},
     {"wait", "wait for a job's end; the exit code is the job's", wait_doc, run_wait},
     {"attach", "follow a job as if it ran in the foreground", attach_doc, run_attach},
     {"events", "the events of a job", events_doc, run_events},
     {"kill", "end jobs", kill_doc, run_kill},
     {"hold", "keep waiting jobs of launcherd from starting", hold_doc, run_hold},
     {"release", "let held jobs start", release_doc, run_release},
     {"rerun", "submit a job of launcherd once more", rerun_doc, run_rerun},
     {"resize", "give a running job more or fewer ranks", resize_doc, run_resize},
     {"hosts", "launcherd's hosts, their slots and what uses them", hosts_doc, run_hosts},
     {"top", "hosts and jobs, live", top_doc, run_top},
     {"report", "a page about jobs, with time lines and scaling", job_report_doc, run_job_report},
     {"stacks", "show what every rank of a running job is doing", stacks_doc, run_stacks},
     {"ensemble", "run many jobs over the hosts of one allocation", ensemble_doc, run_ensemble},
     {"torchrun", "run a torch program on all hosts; takes torchrun's command lines", torchrun_doc, run_torchrun},
     {"torch.distributed.launch", "the same with --local_rank=N as the script's first argument", torchrun_doc,
      run_torchrun},
     {"dmlc", "run MXNet's parameter server on all hosts; takes launch.py's command lines", dmlc_doc, run_dmlc},
     {"doctor", "check whether jobs can run on hosts", doctor_doc, run_doctor_verb},
     {"cleanup", "find and end what dead jobs left on hosts", cleanup_doc, run_cleanup_verb},
     {"compat", "which frameworks' own clients were run against this build", compat_doc, run_compat}});

std::string usage() {
  std::string text = "Usage: muster VERB [options]\n\nVerbs (muster VERB --help explains each):\n";
  for (const Verb& verb : kVerbs) text += fmt::format("  {:<26}{}\n", verb.name, verb.summary);
  return text +
         "\nmuster --man VERB prints a manual page, muster --completion bash|zsh|fish a completion script.\nTo start "
         "programs in the foreground, use hvdrun.\n";
}

int fail(const std::string& message) {
  base::print_remark("muster: {}\n", message);
  return kUsageError;
}

int print(const std::string& text) {
  return print_answer("muster", text);
}

// Handles muster --man VERB and muster --completion SHELL.
int print_for(const std::string& option, const Words& words) {
  if (words.size() < 2) return fail(option + " needs a value: a verb for --man, bash, zsh or fish for --completion");
  const std::string& value = words[1];
  if (option == "--man") {
    const auto* verb = std::ranges::find(kVerbs, value, &Verb::name);
    return verb == kVerbs.end() ? fail("unknown verb " + base::printable(value)) : print(man_page(verb->doc()));
  }
  const auto script = completion_script(value, "muster");
  return script ? print(*script)
                : fail(fmt::format("--completion must be one of bash, zsh, fish, not '{}'", base::printable(value)));
}

// Handles muster __complete WORD..., by which a shell asks what fits.
int complete(const Words& words) {
  CompletedProgram program{.name = "muster", .verbs = {}};
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) {
    program.verbs.push_back({.name = verb.name, .table = verb.doc().table, .summary = verb.summary});
    names.push_back(verb.name);
  }
  const FlagTable help({}, {{.choices = names}});
  program.verbs.push_back({.name = "help", .table = &help, .summary = "list the verbs"});
  std::vector<Flag> flags;
  add_group(FlagGroup::kGeneral,
            {option("man", {"--man"}, "VERB", "Print the manual page of a verb.").offers(names),
             option("completion", {"--completion"}, "bash|zsh|fish", "Print the completion script of a shell."),
             toggle("help", {{"-h", "true"}, {"--help", "true"}}, "List the verbs."),
             toggle("version", {{"-v", "true"}, {"--version", "true"}}, "Print the version.")},
            flags);
  const FlagTable own(std::move(flags));
  program.own = &own;
  return run_complete(program, words);
}

int muster_main(const Words& words) {
  if (words.empty()) return fail("a verb is missing: muster --help lists them");
  const std::string& name = words.front();
  if (name == "-h" || name == "--help" || name == "help") return print(usage());
  if (name == "-v" || name == "--version") return print(version_text("muster", base::build_id()));
  if (name == kCompletionWord) return complete({words.begin() + 1, words.end()});
  if (name == "--man" || name == "--completion") return print_for(name, words);
  const auto* verb = std::ranges::find(kVerbs, name, &Verb::name);
  if (verb != kVerbs.end()) return verb->run(name, {words.begin() + 1, words.end()});
  Words known;
  for (const Verb& each : kVerbs) known.emplace_back(each.name);
  const auto nearest = base::nearest_word(name, known);
  return fail(fmt::format("unknown verb {}{} (muster --help lists them)", base::printable(name),
                          nearest ? fmt::format(", did you mean {}?", *nearest) : ""));
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::cli::hold_standard_streams(argv);
  return muster::cli::muster_main({argv + 1, argv + argc});
}
