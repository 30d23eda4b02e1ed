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
      return fmt::format("the working directory {} does not exist; name another with --wdir", shown);
    case ENOTDIR:
      return fmt::format("the working directory {} is not a directory; name another with --wdir", shown);
    case EACCES:
      return fmt::format("this user may not enter the working directory {}; name another with --wdir", shown);
    default:
      return fmt::format("cannot enter the working directory {}: {}", shown, std::strerror(errno_value));
  }
}

}  // namespace muster::agent::launch
