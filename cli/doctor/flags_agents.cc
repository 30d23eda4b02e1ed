// The options of `muster agents`: hvdrun's options on which hosts and how they are reached, and its own.
#include "cli/doctor/agents.h"

namespace muster::cli::inline doctor {
const FlagTable& agents_flags() {
  static const FlagTable kTable = host_verb_flags(
      kFlagsOfHostVerbs,
      {option("unused-for", {"--unused-for"}, "TIME", "With prune: only agents that were not used for so long.")
           .standard("24h")
           .command_line_only(),
       toggle("json", {{"--json", "true"}}, "Print one muster.v1.AgentsReport a line, as JSON.").command_line_only()},
      {{.choices = {"prune"}}});
  return kTable;
}

}  // namespace muster::cli::doctor
