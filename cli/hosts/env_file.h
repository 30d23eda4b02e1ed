// Reads files of variables for the ranks (--env-file). A line is NAME=VALUE. The value is every byte up to the end of
// the line, as in docker's --env-file and DeepSpeed's ~/.deepspeed_env. NAME alone sends the variable of this shell.
// Lines that begin with # and empty lines are skipped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/options/job_request.h"

namespace muster::cli::inline hosts {

inline constexpr std::size_t kMaxEnvFile = 1u << 20;

// Returns the values that --env would get for this file, in order. INVALID_ARGUMENT names `shown` and the line. Pure.
base::Result<std::vector<std::string>> parse_env_file(std::string_view text, const std::string& shown);

// Reads request.env_files into the job. Paths are relative to `directory`. Variables of --env win over those of files.
base::Status read_env_files(JobRequest& request, const std::string& directory);

}  // namespace muster::cli::hosts
