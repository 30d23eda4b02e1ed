// The entries of a directory.
#pragma once

#include <string>
#include <vector>

namespace muster::base {

// The names in it, sorted; empty if the directory does not exist or cannot be read.
std::vector<std::string> entries_of(const std::string& directory);

}  // namespace muster::base
