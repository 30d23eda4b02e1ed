// The options and the help texts of the verbs that only launcherd answers.
#include "cli/options/fold_option.h"
#include "cli/options/label_option.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/resize.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

const std::vector<GroupTitle> kVerbGroups = {{FlagGroup::kGeneral, "Options"}};
const std::vector<ExitCode> kCodesOfAJob = {
    {"0", "all ranks ended with 0"},
    {"N, 128+signal", "the exit code of the rank that failed first; 124, 125, 129, 130, 143 as with hvdrun"},
    {"1", "launcherd did not answer"},
    {"2", "a mistake in the command line, or no such job"}};

FlagRow rank_row() {
  return option("rank", {"-r", "--rank"}, "LIST", "Only the output of these ranks, such as 0-3,7.").command_line_only();
}

FlagRow timestamp_row() {
  return toggle("prefix-output-with-timestamp",
                {{"-prefix-timestamp", "true"}, {"--prefix-output-with-timestamp", "true"}},
                "Begin each line with the time at which launcherd received it.")
      .command_line_only();
}

}  // namespace

const CommandDoc& wait_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({json_row("The muster.v1.Job that has ended.")}), {{.completes = Completes::kJob}});
  static const CommandDoc kDoc = {
      .name = "muster wait",
      .summary = "wait for a job's end; the exit code is the job's",
      .usage = "[options] [JOB]",
      .description =
          "Waits until the job has ended, and prints nothing. JOB is the beginning of a job's id, or its name. Without "
          "JOB, the only job that has not ended is meant. If launcherd is restarted meanwhile, the command asks the "
          "new one.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"job=$(muster submit -- ./train.sh) && muster wait $job",
                    "in a script: submit a job and wait for it"}},
      .exit_codes = kCodesOfAJob,
  };
  return kDoc;
}

const CommandDoc& logs_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows(
                     {toggle("follow", {{"-f", "true"}, {"--follow", "true"}}, "Follow the job until it ends.")
                          .command_line_only(),
                      rank_row(),
                      option("since", {"--since"}, "TIME",
                             "Only output since then: 10m or 2h ago, or since a time such as 2026-06-20T17:05:53Z.")
                          .command_line_only(),
                      option("tail", {"-n", "--tail"}, "N", "Only about the last N lines; with -f also all later ones.")
                          .command_line_only(),
                      timestamp_row(), label_row().command_line_only(), fold_row().command_line_only(),
                      json_row("One muster.v1.LogChunk a line; its data is in base64.")}),
                 {{.completes = Completes::kAnyJob}});
  static const CommandDoc kDoc = {
      .name = "muster logs",
      .summary = "the output of a job's ranks",
      .usage = "[options] [JOB]",
      .description =
          "Prints the output of one of launcherd's jobs as hvdrun would have shown it, in the order of arrival. The "
          "ranks' stdout goes to stdout, their stderr to stderr. JOB is the beginning of a job's id, or its name. "
          "Without JOB, the only job that has not ended is meant; if all have ended, the newest.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster logs -f k7", "follow the output of job k7"},
                   {"muster logs --tail 20 --rank 3 k7", "the last lines of rank 3"},
                   {"muster logs --since 10m k7 | grep -c WARN", "count warnings of the last ten minutes"}},
      .exit_codes = {{"0", "the output was printed"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"141", "the reader of the output closed it"}},
  };
  return kDoc;
}

const CommandDoc& attach_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({rank_row(),
                                     option("tail", {"-n", "--tail"}, "N", "First print about the last N lines.")
                                         .standard("10")
                                         .command_line_only(),
                                     toggle("kill-on-interrupt", {{"--kill-on-interrupt", "true"}},
                                            "Ctrl-C ends the job as well as this command.")
                                         .command_line_only(),
                                     timestamp_row(), label_row().command_line_only(), fold_row().command_line_only()}),
                 {{.completes = Completes::kJob}});
  static const CommandDoc kDoc = {
      .name = "muster attach",
      .summary = "follow a job as if it ran in the foreground",
      .usage = "[options] [JOB]",
      .description =
          "Shows the ranks' output from now on, then how the job ended, and exits with its exit code, all as hvdrun "
          "does. Ctrl-C leaves the job running and prints that it does, unless --kill-on-interrupt is given. JOB is "
          "the beginning of a job's id, or its name. Without JOB, the only job that has not ended is meant.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster attach k7", "follow job k7 to its end"}},
      .exit_codes = kCodesOfAJob,
  };
  return kDoc;
}

const CommandDoc& hosts_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {option("reason", {"--reason"}, "TEXT", "With drain: the reason; the table of hosts shows it.")
               .command_line_only(),
           toggle("gpus", {{"--gpus", "true"}}, "List the hosts' GPUs, a line each: memory, load, processes, location.")
               .command_line_only(),
           all_rows_row(), json_row("One muster.v1.LauncherHost a line. With add: the muster.v1.ResizeResponse.")}),
      {{.choices = {"drain", "resume", "add"}},
       {.completes = Completes::kHost, .after = "drain", .repeats = true},
       {.completes = Completes::kHost, .after = "resume", .repeats = true},
       {.completes = Completes::kJob, .after = "add"},
       {.completes = Completes::kHost, .after = "add", .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster hosts",
      .summary = "launcherd's hosts, their slots and what uses them",
      .usage = "[options] [drain|resume HOST... | add JOB HOST:SLOTS...]",
      .description =
          "Lists launcherd's hosts, their slots, and their agents. drain keeps new jobs away from hosts; running jobs "
          "go on there. resume undoes drain. add gives a running job further ranks on hosts of the list (muster resize "
          "--help).",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster hosts", "all hosts and their slots"},
                   {"muster hosts --all", "also on a terminal, a line for each of many hosts"},
                   {"muster hosts --gpus", "all GPUs, and how much of each is in use"},
                   {"muster hosts drain n3 --reason 'new memory'", "no new jobs on n3"},
                   {"muster hosts resume n3", "jobs on n3 again"},
                   {"muster hosts add k7 n9:4", "job k7 gets four ranks more, on n9"}},
      .exit_codes = {{"0", "the hosts were listed, drained, resumed or added"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, no such host, or no launcherd"}},
  };
  return kDoc;
}

const CommandDoc& resize_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({json_row("The muster.v1.ResizeResponse.")}), {{.completes = Completes::kJob}});
  static const CommandDoc kDoc = {
      .name = "muster resize",
      .summary = "give a running job more or fewer ranks",
      .usage = "[options] JOB +N|-N|=N",
      .description =
          "Changes the number of ranks of a job that was submitted with --min-np, --on-failure shrink or --on-failure "
          "replace. With --on-failure, its ranks get the signal of --signal first, if the job has one, and its time. "
          "Then they end, and a new generation starts with the new size; the program goes on from its own checkpoint. "
          "A resize is no restart, so --max-restarts does not count it. Without --on-failure, the ranks that stay live "
          "on: the program learns of the change when it next commits its state. --min-np and --max-np are its bounds. "
          "JOB is the beginning of an id, or a "
          "name.\n\n+N and -N are relative to the size now, =N is the new size. New ranks get free slots of "
          "launcherd's "
          "hosts; a job that gets fewer ranks gives up its last ones. muster hosts add JOB HOST:SLOTS takes the slots "
          "of a host that you name. With muster submit --elastic-policy, launcherd changes the size by itself.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster resize k7 +2", "two ranks more"},
                   {"muster resize k7 =12", "twelve ranks"},
                   {"muster hosts add k7 n9:4", "four ranks more, on n9"}},
      .exit_codes = {{"0", "the job has the size, or changes to it"},
                     {"1", "launcherd refused, or did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
