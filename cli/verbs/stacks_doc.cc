// The options and the help text of `muster stacks`.
#include "cli/verbs/stacks.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const FlagTable& stacks_flags() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {option("rank", {"-r", "--rank"}, "LIST", "Only these ranks, such as 0-3,7.").command_line_only(),
       json_row("One muster.v1.ProcessStack a line.")}));
  return kTable;
}

const CommandDoc& stacks_doc() {
  static const CommandDoc kDoc = {
      .name = "muster stacks",
      .summary = "show what every rank of a running job is doing",
      .usage = "[options] [JOB]",
      .description =
          "Prints the stack of every thread of each rank and of each process that the rank started: the functions that "
          "the thread is in, and what it waits for in the kernel. Run it first when a job hangs. The job is one that "
          "an hvdrun of yours runs on this host, or one of launcherd's. JOB is the beginning of the job's id; it is "
          "needed if there are several jobs. Nothing must be installed on the hosts, and nothing is changed there. "
          "Each process is stopped for some milliseconds, as by a debugger.\n\nKernel stacks are shown only for jobs "
          "of root. Python functions appear as functions of the interpreter.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &stacks_flags(),
      .notes = "",
      .examples = {{"muster stacks", "all ranks of the only job"}, {"muster stacks -r 3 --json", ""}},
      .exit_codes = {{"0", "all stacks were read"},
                     {"1", "a host or process could not be read; it is named"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"125", "the output could not be written"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
