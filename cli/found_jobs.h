// The running jobs that a verb's words mean: those of this user's launchers on this host. Blocks.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command_line.h"
#include "launcherd/service/api_socket.h"

namespace muster::cli {

// Options and other words of a verb, which may be mixed.
struct VerbLine {
  CommandLine options;
  std::vector<std::string> words;
};
base::Result<VerbLine> read_verb_line(const std::vector<std::string>& arguments, const FlagTable& table);

std::vector<launcherd::FoundLauncher> running_jobs();

// The job whose id begins with `word`. NOT_FOUND, INVALID_ARGUMENT (several): one sentence with the ids that there are.
base::Result<launcherd::FoundLauncher> job_named(const std::string& word);
// The same; without a word the only one that runs.
base::Result<launcherd::FoundLauncher> one_job(const std::vector<std::string>& words);

}  // namespace muster::cli
