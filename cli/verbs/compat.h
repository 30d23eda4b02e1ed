// `muster compat`: which real clients this build of Muster was run against, and how that went. The rows are the clients
// that Muster is made for; what the end-to-end tests found lies beside the programs, in share/muster/compat. A client
// that they did not find installed is "not run".
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"
#include "proto/muster/v1/compat.pb.h"

namespace muster::cli::inline verbs {

// One for each known client, in the order of docs/compat.md. `directory`: <client>.json files; others are ignored, and
// one that cannot be read counts as not there, with a sentence in `problems`.
std::vector<v1::ClientResult> read_compat(const std::string& directory, std::vector<std::string>* problems);

// A table; `build`: of this program, a result of another one is marked.
std::string format_compat(const std::vector<v1::ClientResult>& results, const std::string& build);

const FlagTable& compat_flags();
const CommandDoc& compat_doc();

// The exit code: 0, 1 when a client failed, 2 for a mistake in the command line.
int run_compat(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
