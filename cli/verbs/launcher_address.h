// Which launcherd a command asks: --launcher, else MUSTER_LAUNCHER, else the one of this user on this host, at
// $XDG_RUNTIME_DIR/muster/launcherd.sock or /tmp/muster-<uid>/launcherd.sock. By TCP with the certificates of
// --tls-cert, --tls-key and --tls-ca, else of MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA. Looks for sockets.
#pragma once

#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "launcherd/service/launcher_address.h"

namespace muster::cli::inline verbs {

// nullopt: none was named, and none runs here.
base::Result<std::optional<launcherd::LauncherAddress>> find_launcherd(const Settings& settings,
                                                                       const base::Environment& environment);

// This one; `by`: who names it. INVALID_ARGUMENT: that is no address.
base::Result<launcherd::LauncherAddress> named_launcherd(const std::string& address, const std::string& by,
                                                         const Settings& settings,
                                                         const base::Environment& environment);

// find_launcherd() for commands that need one; the error says how to start one.
base::Result<launcherd::LauncherAddress> need_launcherd(const Settings& settings, const base::Environment& environment);

}  // namespace muster::cli::verbs
