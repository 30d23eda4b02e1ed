// Examines the directories of this host to which Muster or a rank writes: whether there is room, and whether we may
// write.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// `session_root` is the folder for sessions. `home` is the login's home; empty if not known. /dev/shm is always
// examined.
std::vector<v1::SpaceFact> read_spaces(const std::string& session_root, const std::string& home);

}  // namespace muster::agent::probe
