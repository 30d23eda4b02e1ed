#include "agent/launch/workdir.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::inline launch {

std::string explain_workdir_failure(const std::string& workdir, int errno_value) {
  const std::string shown = base::printable(workdir);
  switch (errno_value) {
    case ENOENT:
      return fmt::format("the working directory {} does not exist (--wdir names another)", shown);
    case ENOTDIR:
      return fmt::format("the working directory {} is not a directory (--wdir names another)", shown);
    case EACCES:
      return fmt::format("the working directory {} may not be entered by this user (--wdir names another)", shown);
    default:
      return fmt::format("cannot enter the working directory {}: {}", shown, std::strerror(errno_value));
  }
}

}  // namespace muster::agent::launch
