#include "base/directory.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace muster::base {

std::vector<std::string> entries_of(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace muster::base
