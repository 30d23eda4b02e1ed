#include "cli/found_jobs.h"

#include <algorithm>

#include "base/env.h"
#include "base/strings.h"

namespace muster::cli {
namespace {

std::string ids_of(const std::vector<launcherd::FoundLauncher>& jobs) {
  std::vector<std::string> ids;
  for (const launcherd::FoundLauncher& job : jobs) ids.push_back(job.job_id);
  return base::join(ids, ", ");
}

base::Result<launcherd::FoundLauncher> only_one(const std::vector<launcherd::FoundLauncher>& meant,
                                                const std::vector<launcherd::FoundLauncher>& all,
                                                const std::string& word) {
  if (meant.size() == 1) return meant.front();
  if (all.empty()) return base::error(base::Code::kNotFound, "no hvdrun of yours runs on this host");
  if (meant.empty()) {
    return base::error(base::Code::kNotFound, "no job begins with {}: there are {}", base::printable(word),
                       ids_of(all));
  }
  return base::error(base::Code::kInvalidArgument, "which job? There are {}", ids_of(meant));
}

}  // namespace

base::Result<VerbLine> read_verb_line(const std::vector<std::string>& arguments, const FlagTable& table) {
  VerbLine line;
  std::vector<std::string> rest = arguments;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(auto part, split_command_line(rest, table));
    line.options.options.insert(line.options.options.end(), part.options.begin(), part.options.end());
    line.options.is_answered = part.is_answered;
    if (part.is_answered || part.command.empty()) return line;
    line.words.push_back(part.command.front());
    rest.assign(part.command.begin() + 1, part.command.end());
  }
}

std::vector<launcherd::FoundLauncher> running_jobs() {
  return launcherd::find_launchers(launcherd::api_directories(base::Environment::current()));
}

base::Result<launcherd::FoundLauncher> job_named(const std::string& word) {
  const auto all = running_jobs();
  std::vector<launcherd::FoundLauncher> meant;
  std::ranges::copy_if(all, std::back_inserter(meant),
                       [&](const launcherd::FoundLauncher& job) { return job.job_id.starts_with(word); });
  return only_one(meant, all, word);
}

base::Result<launcherd::FoundLauncher> one_job(const std::vector<std::string>& words) {
  if (words.size() > 1) {
    return base::error(base::Code::kInvalidArgument, "one job at a time: {} is one word too many",
                       base::printable(words[1]));
  }
  return job_named(words.empty() ? std::string() : words.front());
}

}  // namespace muster::cli
