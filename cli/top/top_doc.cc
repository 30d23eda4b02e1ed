// The options and the help text of `muster top`.
#include "cli/top/top.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline top {

const CommandDoc& top_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {toggle("once", {{"--once", "true"}}, "Print once and exit.").command_line_only(),
       option("interval", {"--interval"}, "TIME", "The time between two updates.").standard("1s").command_line_only(),
       toggle("no-mouse", {{"--no-mouse", "true"}}, "Leave the mouse to the terminal, for selecting text.")
           .command_line_only(),
       json_row(
           "Print one muster.v1.ListHostsResponse and one muster.v1.ListJobsResponse at each update, a line each.")}));
  static const CommandDoc kDoc = {
      .name = "muster top",
      .summary = "hosts and jobs, live",
      .usage = "[options]",
      .description =
          "Shows launcherd's hosts with their slots and load, all running and waiting jobs, what each waits for, and "
          "which rank is late. Tab goes from one table to the other, Enter opens a job with its ranks or a host with "
          "its jobs, / filters, s sorts, ? shows all keys. q or Ctrl-C ends it. Without a terminal it prints hosts and "
          "jobs as text at each update.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "--color never, or NO_COLOR=1 in the environment, turns colors off.",
      .examples = {{"muster top", "hosts and jobs, until q"},
                   {"muster top --once --json | jq -c '.hosts[]? | {name, used_slots}'",
                    "the slots in use, for a script"}},
      .exit_codes = {{"0", "ended by q or Ctrl-C; with --once: hosts and jobs were printed"},
                     {"1", "with --once: launcherd did not answer"},
                     {"2", "a mistake in the command line, or TERM names a terminal that cannot show a screen"}},
  };
  return kDoc;
}

}  // namespace muster::cli::top
