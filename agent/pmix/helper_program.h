// The program muster-pmix, which this build carries in itself.
#pragma once

#include <string_view>

namespace muster::agent::pmix {

// Returns an ELF file, compressed by xz. Empty if libpmix's headers were missing when this was built.
std::string_view helper_program();

}  // namespace muster::agent::pmix
