#include "base/host_name.h"

#include <unistd.h>

#include <climits>

#include "base/strings.h"

namespace muster::base {

std::string own_host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? valid_utf8(name) : std::string();
}

}  // namespace muster::base
