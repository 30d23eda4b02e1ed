#include "cli/options/hvdrun_flags.h"

#include <utility>

namespace muster::cli::inline options {

const FlagTable& hvdrun_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_launch_flags(flags);
    add_horovod_flags(flags);
    add_general_flags(flags);
    return FlagTable(std::move(flags), {{.completes = Completes::kCommand}});
  }();
  return kTable;
}

}  // namespace muster::cli::options
