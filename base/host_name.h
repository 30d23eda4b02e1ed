#pragma once

#include <string>

namespace muster::base {

// Returns this host's name as valid UTF-8. Empty if the system does not say it. Thread: any.
std::string own_host_name();

}  // namespace muster::base
