// The entries of a directory.
#pragma once

#include <string>
#include <vector>

namespace muster::base {

// Names, sorted; empty where there is no such directory or it cannot be read.
std::vector<std::string> entries_of(const std::string& directory);

}  // namespace muster::base
