// The options and the help texts of the verbs that only launcherd answers.
#include "cli/options/label_option.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

const std::vector<GroupTitle> kVerbGroups = {{FlagGroup::kGeneral, "Options"}};
const std::vector<ExitCode> kCodesOfAJob = {
    {"0", "all ranks have ended with 0"},
    {"N, 128+signal", "that of the rank that failed first; 124, 125, 129, 130, 143 as of hvdrun"},
    {"1", "launcherd did not answer"},
    {"2", "a mistake in the command line, or no such job"}};

FlagRow rank_row() {
  return option("rank", {"-r", "--rank"}, "LIST", "The output of these ranks only, as 0-3,7.").command_line_only();
}

FlagRow timestamp_row() {
  return toggle("prefix-output-with-timestamp",
                {{"-prefix-timestamp", "true"}, {"--prefix-output-with-timestamp", "true"}},
                "Put the time before each line, at which it came to launcherd.")
      .command_line_only();
}

}  // namespace

const CommandDoc& wait_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows({}));
  static const CommandDoc kDoc = {
      .name = "muster wait",
      .summary = "wait for a job's end; the exit code is the job's",
      .usage = "[options] [JOB]",
      .description =
          "Waits until the job has ended, and prints nothing. JOB is the beginning of a job's id, or its name; without "
          "it the only job that has not ended is meant. A launcherd that is started again meanwhile is asked "
          "again.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"job=$(muster submit -- ./train.sh) && muster wait $job", ""}},
      .exit_codes = kCodesOfAJob,
  };
  return kDoc;
}

const CommandDoc& logs_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {toggle("follow", {{"-f", "true"}, {"--follow", "true"}}, "Go on until the job ends.").command_line_only(),
       rank_row(),
       option("since", {"--since"}, "TIME", "Nothing older than this: 10m, 2h, or a time as 2026-06-20T17:05:53Z.")
           .command_line_only(),
       option("tail", {"-n", "--tail"}, "N", "About the last N lines only, and with -f what comes then.")
           .command_line_only(),
       timestamp_row(), label_row().command_line_only(),
       json_row("One muster.v1.LogChunk a line; its data is in base64.")}));
  static const CommandDoc kDoc = {
      .name = "muster logs",
      .summary = "what the ranks of a job have written",
      .usage = "[options] [JOB]",
      .description =
          "Prints the output of one of launcherd's jobs as hvdrun would have shown it, in the order in which it "
          "came: stdout of ranks on stdout, stderr on stderr. JOB is the beginning of a job's id, or its name. Without "
          "JOB the only job that has not ended is meant, and if all have ended, the newest.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster logs -f k7", ""},
                   {"muster logs --tail 20 --rank 3 k7", ""},
                   {"muster logs --since 10m k7 | grep -c WARN", ""}},
      .exit_codes = {{"0", "the output was printed"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"141", "nobody read the output any more"}},
  };
  return kDoc;
}

const CommandDoc& attach_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {rank_row(),
       option("tail", {"-n", "--tail"}, "N", "Begin with about the last N lines.").standard("10").command_line_only(),
       toggle("kill-on-interrupt", {{"--kill-on-interrupt", "true"}}, "Ctrl-C ends the job, not only this command.")
           .command_line_only(),
       timestamp_row(), label_row().command_line_only()}));
  static const CommandDoc kDoc = {
      .name = "muster attach",
      .summary = "follow a job as if it ran in the foreground",
      .usage = "[options] [JOB]",
      .description =
          "Shows what the ranks write from now on, then how the job has ended, and ends with its exit code, all "
          "as hvdrun does. Ctrl-C leaves the job running, and says so, unless --kill-on-interrupt is given. "
          "JOB is the beginning of a job's id, or its name; without it the only job that has not ended is meant.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster attach k7", ""}},
      .exit_codes = kCodesOfAJob,
  };
  return kDoc;
}

const CommandDoc& hosts_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {option("reason", {"--reason"}, "TEXT", "With drain: why, for who looks at the table.").command_line_only(),
       toggle("gpus", {{"--gpus", "true"}}, "The hosts' GPUs, a line each: memory, load, processes, where they are.")
           .command_line_only(),
       json_row("One muster.v1.LauncherHost a line.")}));
  static const CommandDoc kDoc = {
      .name = "muster hosts",
      .summary = "launcherd's hosts: what they have and what uses it",
      .usage = "[options] [drain|resume HOST...]",
      .description =
          "Lists the hosts that launcherd was given, their slots, and their agents. drain keeps new jobs away "
          "from hosts; the jobs that run there go on. resume takes that back.",
      .groups = kVerbGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster hosts", ""},
                   {"muster hosts --gpus", "what GPUs there are, and how much of them is in use"},
                   {"muster hosts drain n3 --reason 'new memory'", ""},
                   {"muster hosts resume n3", ""}},
      .exit_codes = {{"0", "the hosts were listed, drained or resumed"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, no such host, or no launcherd"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
