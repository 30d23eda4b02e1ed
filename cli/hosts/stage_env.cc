#include "cli/hosts/stage_env.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/strings.h"

namespace muster::cli::inline hosts {
namespace {

struct Word {
  std::string_view word;
  const char* variable;
  std::string_view how;
};

constexpr Word kWords[] = {{"venv", "VIRTUAL_ENV", "run its bin/activate"},
                           {"conda", "CONDA_PREFIX", "run conda activate NAME"}};

}  // namespace

base::Status settle_stage_env(model::JobSpec& job, const base::Environment& environment, const std::string& directory) {
  if (job.stage_env.empty()) return base::ok_status();
  if (!job.container.image.empty()) {
    return base::invalid_argument(
        "--stage-env and --container: a container has its own environment; leave out one of the two");
  }
  for (const Word& each : kWords) {
    if (job.stage_env != each.word) continue;
    const auto folder = environment.get(each.variable);
    if (!folder || folder->empty()) {
      return base::invalid_argument(
          "--stage-env {}: {} is not set, so no such environment is active: {}, or write ./{} for the folder of that "
          "name",
          each.word, each.variable, each.how, each.word);
    }
    job.stage_env = *folder;
  }
  const std::filesystem::path path = std::filesystem::path(directory) / job.stage_env;
  // Files of the environment name its folder, and do so without "." in it. ".." may lead out of a link.
  const bool leads_up = std::ranges::find(path, "..") != path.end();
  job.stage_env = leads_up ? path.string() : path.lexically_normal().string();
  while (job.stage_env.size() > 1 && job.stage_env.back() == '/') job.stage_env.pop_back();
  if (job.stage_env == "/") return base::invalid_argument("--stage-env /: name the folder of an environment");
  return base::ok_status();
}

base::Status check_stage_env(const model::JobSpec& job) {
  if (job.stage_env.empty()) return base::ok_status();
  struct stat info {};
  const std::string shown = base::printable(job.stage_env);
  const bool is_there = ::stat(job.stage_env.c_str(), &info) == 0;
  if (is_there && !S_ISDIR(info.st_mode)) {
    return base::invalid_argument("--stage-env {}: it is not a folder; name the folder of the environment", shown);
  }
  if (is_there && ::access(job.stage_env.c_str(), R_OK | X_OK) == 0) return base::ok_status();
  const int problem = errno;
  return base::invalid_argument("--stage-env {}: {}", shown, base::errno_error(problem, "it cannot be read").message());
}

}  // namespace muster::cli::hosts
