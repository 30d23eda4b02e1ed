// The options that ask hvdrun about itself instead of starting something.
#include "cli/flag_row.h"

namespace muster::cli {

void add_general_flags(std::vector<Flag>& flags) {
  add_group(FlagGroup::kGeneral,
            {
                toggle("version", {{"-v", "true"}, {"--version", "true"}}, "Print the version.").stands_alone(),
                toggle("help", {{"-h", "true"}, {"--help", "true"}}, "Print this text.").stands_alone(),
            },
            flags);
}

}  // namespace muster::cli
