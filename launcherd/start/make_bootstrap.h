// Which way starts the agent of a host: this host's own, ssh, the site's launcher, or an agent that dials in.
#pragma once

#include <memory>

#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline start {

// INVALID_ARGUMENT or NOT_FOUND when the options cannot work for any host (agent file missing or not an ELF program,
// ids or directory outside their alphabets).
base::Result<std::unique_ptr<Bootstrap>> make_bootstrap(BootstrapOptions options);

}  // namespace muster::launcherd::start
