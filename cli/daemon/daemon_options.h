// Converts launcherd's options for the daemon, and reads the files that they name: hostfile, certificates, keys.
// Thread: calls block as long as the file systems do.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/daemon/launcherd_options.h"
#include "launcherd/daemon/daemon.h"
#include "launcherd/output/terminal.h"
#include "model/host_spec.h"

namespace muster::cli::inline daemon {

// `directory` is the working directory, to which paths of the options are relative.

// Returns the hosts of the command line, or those of the hostfile as it is now, or this host. With --accept-agents the
// list may be empty, because hosts connect by themselves.
base::Result<std::vector<model::HostSpec>> hosts_of(const ParsedLauncherd& parsed, const base::Environment& environment,
                                                    const std::string& directory);

// Returns the addresses of --listen HOST:PORT, with the certificates as they are now. Does not check the certificates.
base::Result<std::vector<launcherd::TlsListener>> tls_listeners(const ParsedLauncherd& parsed,
                                                                const std::string& directory);

// Returns the address of --metrics, with the certificate as it is now, if there is one.
base::Result<launcherd::MetricsPort> metrics_port(const ParsedLauncherd& parsed, const std::string& directory);

// Borrows `notices` for the daemon's lines. Takes the listening socket that a service manager has opened, if any.
base::Result<launcherd::DaemonOptions> daemon_options(const ParsedLauncherd& parsed,
                                                      const base::Environment& environment,
                                                      const std::string& directory, launcherd::NoticeWriter& notices);

}  // namespace muster::cli::daemon
