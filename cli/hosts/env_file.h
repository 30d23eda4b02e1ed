// Files of variables for the ranks (--env-file): NAME=VALUE a line, the value byte for byte to the end of the line, as
// docker's --env-file and DeepSpeed's ~/.deepspeed_env; NAME alone sends this shell's; # comments and empty lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/options/options.h"

namespace muster::cli::inline hosts {

inline constexpr std::size_t kMaxEnvFile = 1u << 20;

// What --env would be given for it, in order. INVALID_ARGUMENT names `shown` and the line. Pure.
base::Result<std::vector<std::string>> parse_env_file(std::string_view text, const std::string& shown);

// Reads options.env_files, paths relative to `directory`; what --env says goes before them.
base::Status read_env_files(HvdrunOptions& options, const std::string& directory);

}  // namespace muster::cli::hosts
