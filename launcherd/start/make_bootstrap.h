// Which way starts the agent of a host: this host's own, ssh, the site's launcher, or an agent that dials in.
#pragma once

#include <memory>

#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline start {

// Errors: INVALID_ARGUMENT or NOT_FOUND if the options cannot work for any host. The agent file may be missing or not
// an ELF program, or an id or directory may contain a forbidden character.
base::Result<std::unique_ptr<Bootstrap>> make_bootstrap(BootstrapOptions options);

}  // namespace muster::launcherd::start
