// Reads launcherd's command line: hvdrun's options on which hosts and how they are reached, and launcherd's own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"
#include "launcherd/enrol/accept_agents.h"
#include "launcherd/queue/fair_use.h"

namespace muster::cli::inline daemon {

struct ParsedLauncherd : HostVerbLine {
  std::vector<std::string> sockets;    // paths of --listen unix:PATH; at most one
  std::vector<std::string> addresses;  // values of --listen HOST:PORT
  std::string tls_certificate;         // these four are paths of files; empty if not given
  std::string tls_key;
  std::string client_ca;
  std::string client_crl;
  std::string state;  // empty means the default
  std::string http;   // empty if not given
  bool http_write = false;
  std::string metrics;  // empty if not given
  std::optional<launcherd::AcceptAgents> accept_agents;
  std::string join_file;  // --join-file, for --accept-agents; empty means a file in the state directory
  launcherd::FairUse fair_use;
  bool is_root_accepted = false;
  bool is_check = false;          // --check
  std::vector<Setting> settings;  // all that were set, in their order
};

// Reads no file except the configuration. `is_root` tells whether jobs would run as root.
ParsedLauncherd parse_launcherd(const std::vector<std::string>& arguments, const base::Environment& environment,
                                const ParseContext& context, bool is_root);

const FlagTable& launcherd_flags();
// Returns the options that files and variables may set: hvdrun's, which launcherd reads from the same files, and its
// own.
const FlagTable& launcherd_settable_flags();
// Returns the options by their keys in launcherd.yaml: the options' names with '_'. Behind them stand the keys of
// config.yaml (launcherd_settable_flags()), which the file may have, too.
const FlagTable& launcherd_file_flags();
inline constexpr std::string_view kLauncherdFile = "launcherd.yaml";
const CommandDoc& launcherd_doc();

}  // namespace muster::cli::daemon
