// The options and the help text of `muster top`.
#include "cli/verbs/top.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const CommandDoc& top_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {toggle("once", {{"--once", "true"}}, "Print once and exit.").command_line_only(),
       option("interval", {"--interval"}, "TIME", "The time between two updates.").standard("1s").command_line_only(),
       json_row(
           "Print one muster.v1.ListHostsResponse and one muster.v1.ListJobsResponse at each update, a line each.")}));
  static const CommandDoc kDoc = {
      .name = "muster top",
      .summary = "hosts and jobs, live",
      .usage = "[options]",
      .description =
          "Shows launcherd's hosts with their slots and agents, all running and waiting jobs, and what each waits for. "
          "q or Ctrl-C ends it. Without a terminal it prints the same as text at each update.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster top", ""}, {"muster top --once --json | jq -c '.hosts[]? | {name, used_slots}'", ""}},
      .exit_codes = {{"0", "ended by q or Ctrl-C; with --once: hosts and jobs were printed"},
                     {"1", "with --once: launcherd did not answer"},
                     {"2", "a mistake in the command line"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
