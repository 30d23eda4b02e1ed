// The options of `muster cleanup`: hvdrun's options on which hosts and how they are reached, and its own.
#include <array>

#include "cli/doctor/cleanup.h"

namespace muster::cli::inline doctor {
namespace {

constexpr auto kCleanupFlagsOfHvdrun =
    std::to_array<std::string_view>({"hosts", "hostfile", "ssh-port", "ssh-identity-file", "ssh-backend", "bootstrap",
                                     "bootstrap-cmd", "agent-dir", "verbose", "start-timeout", "config-file"});

}  // namespace

const FlagTable& cleanup_flags() {
  static const FlagTable kTable = host_verb_flags(
      kCleanupFlagsOfHvdrun,
      {option("job", {"--job"}, "JOB", "Only strays of this job: its id, or the beginning of it.")
           .completes(Completes::kAnyJob)
           .command_line_only(),
       toggle("dry-run", {{"--dry-run", "true"}}, "List the strays and touch nothing.").command_line_only(),
       toggle("json", {{"--json", "true"}}, "Print one muster.v1.CleanupReport a line, as JSON.").command_line_only()});
  return kTable;
}

}  // namespace muster::cli::doctor
