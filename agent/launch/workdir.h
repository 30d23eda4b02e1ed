// Launch step: the rank's working directory. The child enters it; this file explains why it could not.
#pragma once

#include <string>

namespace muster::agent::inline launch {

// A sentence like "the working directory /x does not exist; name another with --wdir", without the host's name.
std::string explain_workdir_failure(const std::string& workdir, int errno_value);

}  // namespace muster::agent::launch
