// Launch step: a rank that runs inside a container (model/container.h has the rules). Looks at the host's files; starts
// nothing.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "model/container.h"

namespace muster::agent::inline launch {

// Makes `request` one of the container's program. Bound under their own names, as far as they are there: the working
// directory, the session directory, and of PYTHONPATH what holds Muster's package, with its library; Muster's library
// that the environment names. `own_names`: the variables of the rank itself.
// NOT_FOUND: the program is not there; one sentence without the host's name that says what to install.
// INVALID_ARGUMENT: a folder cannot be bound.
base::Status enter_container(const model::Container& container, const std::vector<std::string>& own_names,
                             SpawnRequest& request);

}  // namespace muster::agent::launch
