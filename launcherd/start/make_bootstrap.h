// Chooses how the agent of a host is started: on this host, by ssh, by the site's launcher, or by an agent that dials
// in.
#pragma once

#include <memory>

#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline start {

// INVALID_ARGUMENT or NOT_FOUND: the options cannot work for any host. Examples: the agent file is missing or not an
// ELF program, or an id or directory contains a forbidden character.
base::Result<std::unique_ptr<Bootstrap>> make_bootstrap(BootstrapOptions options);

}  // namespace muster::launcherd::start
