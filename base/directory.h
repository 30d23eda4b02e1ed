// The entries of a directory.
#pragma once

#include <string>
#include <vector>

namespace muster::base {

// Returns the names in the directory, sorted. Empty if it does not exist or cannot be read.
std::vector<std::string> entries_of(const std::string& directory);

}  // namespace muster::base
