// The options and the help text of `muster compat`.
#include "cli/verbs/compat.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const CommandDoc& compat_doc() {
  static const FlagTable kTable = verb_table({json_row("One muster.v1.ClientResult a line.")});
  static const CommandDoc kDoc = {
      .name = "muster compat",
      .summary = "which frameworks' own clients were run against this build",
      .usage = "[options]",
      .description =
          "Muster serves stores and protocols to clients of other frameworks. For each client this prints whether the "
          "tests of this build ran the real one, which version, and the result. A client that was not installed then "
          "is \"not tried here\" (\"not run\" in JSON); that is not a failure. This command runs no client. "
          "tools/peers installs the clients, and the end-to-end tests use those that they find.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster compat", "a table of all clients"}, {"muster compat --json", "the same, for a script"}},
      .exit_codes = {{"0", "no client failed"}, {"1", "a client failed"}, {"2", "a mistake in the command line"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
