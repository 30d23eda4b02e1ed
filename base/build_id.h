// The id of this program's build. A launcher and its agents must be of the same build.
#pragma once

#include <string_view>

namespace muster::base {

// 16 hex digits, a hash of the compiled sources; the same for all programs of a build tree.
std::string_view build_id();

}  // namespace muster::base
