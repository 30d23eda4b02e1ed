// The program muster-gpus, which this build carries in itself.
#pragma once

#include <string_view>

namespace muster::agent::inline gpus {

std::string_view helper_program();  // an ELF file, compressed by xz

}  // namespace muster::agent::gpus
