// The options and the help text of `muster top`.
#include "cli/verbs/top.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const CommandDoc& top_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {toggle("once", {{"--once", "true"}}, "Print once, and end.").command_line_only(),
       option("interval", {"--interval"}, "TIME", "How often launchers are asked.").standard("1s").command_line_only(),
       json_row("Each time one muster.v1.ListHostsResponse and one muster.v1.ListJobsResponse, a line each.")}));
  static const CommandDoc kDoc = {
      .name = "muster top",
      .summary = "hosts and jobs, live",
      .usage = "[options]",
      .description =
          "Shows launcherd's hosts with their slots and agents, all jobs that run or wait, and what they wait "
          "for, until q or Ctrl-C. Without a terminal the same is printed as text each time.",
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
