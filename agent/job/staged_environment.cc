#include "agent/job/staged_environment.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "agent/job/env_entries.h"
#include "agent/stage/env_prefix.h"
#include "agent/stage/env_store.h"
#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

constexpr const char* kUsualPath = "/usr/local/bin:/usr/bin:/bin";
constexpr std::string_view kPathEntry = "PATH=";

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

std::string environments_folder(const std::string& session_dir) {
  return session_dir.substr(0, session_dir.rfind('/')) + "/envs";
}

base::Status StagedEnvironment::open(const v1::Launch& launch, const std::string& environments) {
  if (!launch.has_staged_environment()) return base::ok_status();
  const v1::LaunchEnvironment& wanted = launch.staged_environment();
  MUSTER_ASSIGN_OR_RETURN(const EnvStore store, EnvStore::open(environments));
  MUSTER_ASSIGN_OR_RETURN(held_, store.hold(wanted.id()));
  home_ = store.path_of(wanted.id());
  prefixes_.assign(wanted.prefixes().begin(), wanted.prefixes().end());
  names_ = {"MUSTER_ENV_DIR"};
  if (is_there(home_ + "/pyvenv.cfg")) names_.emplace_back("VIRTUAL_ENV");
  if (is_there(home_ + "/conda-meta")) names_.emplace_back("CONDA_PREFIX");
  return base::ok_status();
}

void StagedEnvironment::apply(std::vector<SpawnRequest>& requests) const {
  if (home_.empty()) return;
  for (SpawnRequest& request : requests) start_from_environment(home_, prefixes_, names_, request);
}

void start_from_environment(const std::string& home, const std::vector<std::string>& prefixes,
                            const std::vector<std::string>& names, SpawnRequest& request) {
  const auto entry =
      std::ranges::find_if(request.env, [](const std::string& each) { return each.starts_with(kPathEntry); });
  const std::string former = entry == request.env.end() ? kUsualPath : entry->substr(kPathEntry.size());
  std::string path = home + "/bin";
  for (const std::string_view folder : base::split(former, ':')) {
    // The environment's folder on the launcher's machine is the one that must not be read.
    if (moved_target(std::string(folder), prefixes, home) != folder) continue;
    path += fmt::format(":{}", folder);
  }
  unset_entry("PATH", request.env);
  request.env.push_back(fmt::format("{}{}", kPathEntry, path));
  for (const char* const name : {"PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"}) unset_entry(name, request.env);
  for (const std::string& name : names) {
    unset_entry(name, request.env);
    request.env.push_back(fmt::format("{}={}", name, home));
  }
  if (!request.argv.empty()) request.argv.front() = moved_target(request.argv.front(), prefixes, home);
}

}  // namespace muster::agent::job
