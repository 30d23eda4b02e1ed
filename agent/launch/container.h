// Launch step: makes a rank run inside a container (model/container.h has the rules). It reads the host's files and
// starts nothing.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "model/container.h"

namespace muster::agent::inline launch {

// Changes `request` so that it runs the container's program. It binds these folders under their own names, if they
// exist: the working directory and the session directory. It also binds the folders of PYTHONPATH that contain
// Muster's package and library. Last comes the folder of the library that the environment names.
// `own_names` are the variables of the rank itself.
// NOT_FOUND: the program is missing. The text is one sentence without the host's name and says what to install.
// INVALID_ARGUMENT: a folder cannot be bound.
base::Status enter_container(const model::Container& container, const std::vector<std::string>& own_names,
                             SpawnRequest& request);

}  // namespace muster::agent::launch
