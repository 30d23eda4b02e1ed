// Finds the launcherd that a command asks. The order is: --launcher, MUSTER_LAUNCHER, then this user's launcherd on
// this host. Its socket is $XDG_RUNTIME_DIR/muster/launcherd.sock or /tmp/muster-<uid>/launcherd.sock.
// Over TCP the certificates are those of --tls-cert, --tls-key and --tls-ca. The defaults are MUSTER_TLS_CERT,
// MUSTER_TLS_KEY and MUSTER_TLS_CA. The functions probe sockets.
#pragma once

#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/settings.h"
#include "launcherd/service/launcher_address.h"

namespace muster::cli::inline verbs {

// nullopt if none was named and none runs on this host.
base::Result<std::optional<launcherd::LauncherAddress>> find_launcherd(const Settings& settings,
                                                                       const base::Environment& environment);

// Parses `address`. `by` is the option or variable that named it, for messages. INVALID_ARGUMENT if it is no address.
base::Result<launcherd::LauncherAddress> named_launcherd(const std::string& address, const std::string& by,
                                                         const Settings& settings,
                                                         const base::Environment& environment);

// Does the same as find_launcherd(), for commands that need one. The error tells how to start one.
base::Result<launcherd::LauncherAddress> need_launcherd(const Settings& settings, const base::Environment& environment);

}  // namespace muster::cli::verbs
