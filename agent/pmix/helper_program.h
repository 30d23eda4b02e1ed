// The program muster-pmix, as this build has it in itself.
#pragma once

#include <string_view>

namespace muster::agent::pmix {

// An ELF file, compressed by gzip; empty: libpmix's headers were not there when this was built.
std::string_view helper_program();

}  // namespace muster::agent::pmix
