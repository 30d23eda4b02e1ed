// The options of `muster cleanup`: hvdrun's options on which hosts and how they are reached, and its own.
#include "cli/doctor/cleanup.h"

namespace muster::cli::inline doctor {
const FlagTable& cleanup_flags() {
  static const FlagTable kTable = host_verb_flags(
      kFlagsOfHostVerbs,
      {option("job", {"--job"}, "JOB", "Only strays of this job: its id, or the beginning of it.")
           .completes(Completes::kAnyJob)
           .command_line_only(),
       toggle("dry-run", {{"--dry-run", "true"}}, "List the strays and touch nothing.").command_line_only(),
       toggle("json", {{"--json", "true"}}, "Print one muster.v1.CleanupReport a line, as JSON.").command_line_only()});
  return kTable;
}

}  // namespace muster::cli::doctor
