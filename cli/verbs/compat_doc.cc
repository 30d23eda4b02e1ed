// The options and the help text of `muster compat`.
#include "cli/help/flag_row.h"
#include "cli/verbs/compat.h"

namespace muster::cli::inline verbs {

const FlagTable& compat_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_group(FlagGroup::kGeneral,
              {toggle("json", {{"--json", "true"}}, "One muster.v1.ClientResult a line.").command_line_only(),
               toggle("help", {{"-h", "true"}, {"--help", "true"}}, "Print this text.").stands_alone()},
              flags);
    return FlagTable(std::move(flags));
  }();
  return kTable;
}

const CommandDoc& compat_doc() {
  static const CommandDoc kDoc = {
      .name = "muster compat",
      .summary = "which frameworks' own clients were run against this build",
      .usage = "[options]",
      .description =
          "Prints, for each client that Muster serves a store or protocol to, whether the tests of this build have run "
          "the real one, in which version, and how it went. A client that was not installed then is \"not tried "
          "here\" (\"not run\" in JSON), which says nothing against it. Nothing is run now: tools/peers installs the "
          "clients, and the end-to-end tests use those that they find.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &compat_flags(),
      .notes = "",
      .examples = {{"muster compat", ""}, {"muster compat --json", ""}},
      .exit_codes = {{"0", "no client has failed"},
                     {"1", "a client has failed"},
                     {"2", "a mistake in the command line"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
