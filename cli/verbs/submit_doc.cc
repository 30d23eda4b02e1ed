// The options and the help text of `muster submit`. It takes hvdrun's options for ranks, hosts, the program,
// its lifetime and Horovod's tuning, and adds its own.
#include <algorithm>

#include "cli/options/hvdrun_flags.h"
#include "cli/options/template_line.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

// Options of the taken groups that submit leaves out, because they need a launcher in the foreground.
constexpr std::string_view kLeftOut[] = {"stdin", "pty"};
constexpr FlagGroup kTaken[] = {FlagGroup::kRanks, FlagGroup::kHosts, FlagGroup::kProgram, FlagGroup::kLife,
                                FlagGroup::kTuning};

std::vector<FlagRow> own_rows() {
  return with_launcher_rows(with_template_rows(
      {option("name", {"--name"}, "NAME", "What people call the job.").command_line_only(),
       option("priority", {"--priority"}, "P", "Jobs of higher priority start first; may be negative.")
           .standard("0")
           .command_line_only(),
       option("deadline", {"--deadline"}, "TIME",
              "The job must have ended by then, also if it still waits: in 2h, or at 2026-06-20T17:05:53Z.")
           .command_line_only(),
       option("request-id", {"--request-id"}, "ID",
              "A name of your choice for this submission: with the same one no second job is made, and the id of the "
              "first is printed.")
           .command_line_only(),
       option("label", {"--label"}, "NAME=VALUE", "For you and your tools. Repeatable.")
           .repeats(Repeat::kAddsUp)
           .command_line_only(),
       option("max-restarts", {"--max-restarts"}, "N", "Start the whole job again after a rank has failed, so often.")
           .standard("0")
           .command_line_only(),
       option("on-launcher-loss", {"--on-launcher-loss"}, "hold|kill",
              "What ranks do when launcherd is gone: go on until it is back, or end.")
           .standard("hold")
           .command_line_only(),
       option("lease", {"--lease"}, "TIME", "How long ranks go on without launcherd.")
           .standard("10m")
           .command_line_only(),
       option("retention", {"--retention"}, "TIME", "How long the ended job and its output are kept.")
           .standard("168h")
           .command_line_only(),
       option("script", {"--script"}, "FILE",
              "With -t: where the script is written, and kept (default: in ~/.cache/muster/jobs).")
           .completes(Completes::kFile)
           .command_line_only(),
       toggle("dry-run", {{"--dry-run", "true"}}, "With -t: print the table of ranks, and submit nothing.")
           .command_line_only(),
       json_row("With -t and --dry-run: as JSON.")}));
}

FlagTable make_table() {
  std::vector<Flag> flags;
  for (const Flag& flag : hvdrun_flags().flags()) {
    const bool is_taken = std::ranges::find(kTaken, flag.group) != std::end(kTaken);
    const bool is_left_out = std::ranges::find(kLeftOut, flag.name) != std::end(kLeftOut);
    if ((is_taken && !is_left_out) || flag.name == "config-file") flags.push_back(flag);
  }
  const FlagTable own = verb_table(own_rows());
  flags.insert(flags.end(), own.flags().begin(), own.flags().end());
  return FlagTable(std::move(flags));
}

}  // namespace

const CommandDoc& submit_doc() {
  static const FlagTable kTable = make_table();
  static const CommandDoc kDoc = {
      .name = "muster submit",
      .summary = "give a job to launcherd; prints its id",
      .usage = "[options] [--] COMMAND...",
      .description =
          "The job runs when there are slots for it, also when this terminal is gone. Its ranks get the "
          "environment of this command by hvdrun's rules, its directory and its umask; they have no input. "
          "Without -H and --hostfile it may run on any of launcherd's hosts.\n\n"
          "With -t the job is that of a template, whose parameters are options (muster templates show NAME): its "
          "script "
          "goes to qsub, sbatch, flux batch or bsub, and the scheduler's id is printed; where there is no such "
          "program, "
          "or the template has no scheduler, launcherd takes the job.",
      .groups = {{FlagGroup::kRanks, "Ranks"},
                 {FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kProgram, "Program"},
                 {FlagGroup::kLife, "Life"},
                 {FlagGroup::kTuning, "Horovod"},
                 {FlagGroup::kGeneral, "Job and launcherd"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster submit -np 16 --name night python3 train.py", ""},
                   {"job=$(muster submit -N 4 -H n1,n2 -- ./prepare.sh) && muster logs -f $job", ""},
                   {"muster submit -t polaris --nodes 4 --project physics -- python3 train.py", "by PBS"},
                   {"muster submit -t polaris --nodes 4 --dry-run -- python3 train.py", "who would run where"},
                   {"muster submit --request-id nightly-2026-06-20 ./run.sh",
                    "at most one job, however often it is tried"}},
      .exit_codes = {{"0", "launcherd has the job"},
                     {"1", "launcherd did not answer, or takes no job now"},
                     {"2", "a mistake in the command line, no launcherd, or a job that could never run there"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
