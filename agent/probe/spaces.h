// The directories of this host that Muster or a rank writes to: is there room, may we write.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// `session_root`: where sessions lie; `home`: the login's, empty: not known. /dev/shm is always looked at.
std::vector<v1::SpaceFact> read_spaces(const std::string& session_root, const std::string& home);

}  // namespace muster::agent::probe
