// The options and the help text of `muster stacks`.
#include "cli/verbs/stacks.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const FlagTable& stacks_flags() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows({option("rank", {"-r", "--rank"}, "LIST", "These ranks only, as 0-3,7.").command_line_only(),
                          json_row("One muster.v1.ProcessStack a line.")}));
  return kTable;
}

const CommandDoc& stacks_doc() {
  static const CommandDoc kDoc = {
      .name = "muster stacks",
      .summary = "where every rank of a running job is",
      .usage = "[options] [JOB]",
      .description =
          "Prints, for each rank and each process that it has started, what its threads do: the functions that they "
          "are in, and what they wait for in the kernel. The first thing to look at when a job hangs. The job is one "
          "that an hvdrun of yours runs on this host, or launcherd's; JOB, the beginning of its id, is needed when "
          "there "
          "are several. "
          "Nothing has to be installed on the hosts, and nothing is changed: each process is stopped for some "
          "milliseconds, as by a debugger.\n\n"
          "Kernel stacks are shown for jobs of root. Python's own functions appear as those of its interpreter.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &stacks_flags(),
      .notes = "",
      .examples = {{"muster stacks", "all ranks of the only job"}, {"muster stacks -r 3 --json", ""}},
      .exit_codes = {{"0", "all was read"},
                     {"1", "a host or process could not be asked; it is named"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"125", "the output could not be written"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
