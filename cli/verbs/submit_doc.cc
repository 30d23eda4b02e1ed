// The options and the help text of `muster submit`. It takes hvdrun's options for ranks, hosts, the program,
// its lifetime and Horovod's tuning, and adds its own.
#include <algorithm>

#include "cli/options/hvdrun_flags.h"
#include "cli/options/template_line.h"
#include "cli/verbs/queue_options.h"
#include "cli/verbs/submit.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

// Options of the groups below that submit leaves out, because they need a launcher in the foreground.
constexpr std::string_view kLeftOut[] = {"stdin", "pty"};
// Options of other groups that launcherd's jobs have as well.
constexpr std::string_view kSharedNames[] = {"min-num-proc", "max-num-proc", "elastic-timeout", "reset-limit",
                                             "blacklist-cooldown-range"};
constexpr FlagGroup kSharedGroups[] = {FlagGroup::kRanks, FlagGroup::kHosts, FlagGroup::kProgram, FlagGroup::kLife,
                                       FlagGroup::kTuning};

std::vector<FlagRow> own_rows() {
  return with_launcher_rows(with_template_rows(
      {option("name", {"--name"}, "NAME", "A name for the job.").command_line_only(),
       priority_row("Jobs of higher priority start first. P may be negative.").standard("0"),
       deadline_row("Kill the job at this time, even if it still waits: in 2h, or at 2026-06-20T17:05:53Z."),
       after_row("Start only after JOB has succeeded, or with JOB:any after it has ended. Repeatable. If JOB ends in "
                 "another way, this job ends, too, with exit code 125."),
       option(
           "array", {"--array"}, "INDEXES[%N]",
           "Run the command once for each index, such as 0-99 or 1,5,7-9, and at most N of them at a time. Ranks get "
           "MUSTER_ARRAY_INDEX. JOB[7] is the element of index 7.")
           .command_line_only(),
       option(
           "notify", {"--notify"}, "CMD",
           "When the job has ended, launcherd runs /bin/sh -c CMD on its own host, as its own user, for at most 60 s. "
           "CMD gets MUSTER_JOB_ID, MUSTER_JOB_STATE and MUSTER_EXIT_CODE.")
           .command_line_only(),
       toggle("hold", {{"--hold", "true"}}, "Let the job wait until muster release starts it.").command_line_only(),
       option("request-id", {"--request-id"}, "ID",
              "A name of your choice for this submission. Submitting again with the same name makes no second job and "
              "prints the id of the first.")
           .command_line_only(),
       option("label", {"--label"}, "NAME=VALUE", "A note for you and your tools. Repeatable.")
           .repeats(Repeat::kAddsUp)
           .command_line_only(),
       option("on-launcher-loss", {"--on-launcher-loss"}, "hold|kill",
              "What ranks do when launcherd is gone: hold lets them run until it is back, kill ends them. Ranks with "
              "--min-np and without --on-failure are always ended.")
           .standard("hold")
           .command_line_only(),
       option("lease", {"--lease"}, "TIME", "How long ranks may run without launcherd.")
           .standard("10m")
           .command_line_only(),
       option("retention", {"--retention"}, "TIME", "How long launcherd keeps the ended job and its output.")
           .standard("168h")
           .command_line_only(),
       option("script", {"--script"}, "FILE",
              "With -t: the file to write the script to (default: in ~/.cache/muster/jobs). It is kept.")
           .completes(Completes::kFile)
           .command_line_only(),
       option("tensorboard", {"--tensorboard"}, "DIR",
              "Refused, because launcherd keeps what is measured: see muster report --tensorboard.")
           .completes(Completes::kDirectory)
           .command_line_only()
           .refusal("launcherd keeps what is measured of its jobs: while the job runs, write it by muster report JOB "
                    "--tensorboard DIR"),
       toggle("dry-run", {{"--dry-run", "true"}}, "With -t: print the table of ranks and submit nothing.")
           .command_line_only(),
       json_row("One muster.v1.SubmitResponse: the job's id. With -t and --dry-run: the table of ranks.")}));
}

FlagTable make_table() {
  std::vector<Flag> flags;
  for (const Flag& flag : hvdrun_flags().flags()) {
    const bool is_shared = std::ranges::find(kSharedGroups, flag.group) != std::end(kSharedGroups) ||
                           std::ranges::find(kSharedNames, flag.name) != std::end(kSharedNames);
    const bool is_left_out = std::ranges::find(kLeftOut, flag.name) != std::end(kLeftOut);
    if ((is_shared && !is_left_out) || flag.name == "config-file") flags.push_back(flag);
  }
  const FlagTable own = verb_table(own_rows());
  flags.insert(flags.end(), own.flags().begin(), own.flags().end());
  return FlagTable(std::move(flags), {{.completes = Completes::kCommand}});
}

}  // namespace

const CommandDoc& submit_doc() {
  static const FlagTable kTable = make_table();
  static const CommandDoc kDoc = {
      .name = "muster submit",
      .summary = "give a job to launcherd; prints its id",
      .usage = "[options] [--] COMMAND...",
      .description =
          "launcherd runs the job as soon as it has free slots, even after this terminal is closed. The ranks get this "
          "command's environment by hvdrun's rules, its directory and its umask. They have no input. Without -H and "
          "--hostfile the job may run on any of launcherd's hosts.\n\nWith -t the job is made from a template. The "
          "template's parameters are options; muster templates show NAME lists them. The job's script goes to qsub, "
          "sbatch, flux batch or bsub, and the scheduler's id is printed. If that program is missing, or the template "
          "has no scheduler, launcherd takes the job.",
      .groups = {{FlagGroup::kRanks, "Ranks"},
                 {FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kProgram, "Program"},
                 {FlagGroup::kLife, "Life"},
                 {FlagGroup::kElastic, "Another size later (muster resize)"},
                 {FlagGroup::kTuning, "Horovod"},
                 {FlagGroup::kGeneral, "Job and launcherd"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster submit -np 16 --name night python3 train.py", "16 ranks on any free slots"},
                   {"job=$(muster submit -N 4 -H n1,n2 -- ./prepare.sh) && muster logs -f $job",
                    "on two hosts, and follow its output"},
                   {"muster submit --min-np 2 --max-np 8 python3 train_elastic.py",
                    "a program of Horovod Elastic, whose ranks live on when others fail or join"},
                   {"muster submit -t polaris --nodes 4 --project physics -- python3 train.py", "by PBS"},
                   {"muster submit -t polaris --nodes 4 --dry-run -- python3 train.py",
                    "show which rank would run where"},
                   {"muster submit --after k7 --notify 'mail -s $MUSTER_JOB_STATE me' ./report.sh",
                    "after job k7 has succeeded"},
                   {"muster submit --array 0-99%4 ./sweep.sh", "100 runs, four at a time"},
                   {"muster submit --request-id nightly-2026-06-20 ./run.sh",
                    "one job, however often the command is repeated"}},
      .exit_codes = {{"0", "launcherd has the job"},
                     {"1", "launcherd did not answer, or accepts no jobs now"},
                     {"2", "a mistake in the command line, no launcherd, or a job that its hosts can never run"}},
      .most_used = {"num-proc", "ranks-per-node", "hosts", "template", "name", "priority", "env", "timeout", "deadline",
                    "after", "array", "hold", "max-restarts", "dry-run", "launcher"},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
