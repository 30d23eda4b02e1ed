#include "agent/launch/container.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "agent/launch/program.h"
#include "base/env.h"
#include "base/strings.h"

namespace muster::agent::inline launch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrograms[] = {"apptainer", "singularity"};

bool is_program(const std::string& path) {
  std::error_code ignored;  // a file that cannot be read cannot be started, either
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;  // a file that cannot be read cannot be bound, either
  return fs::exists(path, ignored);
}

std::optional<std::string> search(const std::string& name, const SpawnRequest& request) {
  for (const std::string& candidate : program_candidates(name, request.env)) {
    const std::string path = candidate.starts_with('/') ? candidate : request.workdir + "/" + candidate;
    if (is_program(path)) return path;
  }
  return std::nullopt;
}

base::Result<std::string> find_program(const std::string& named, const SpawnRequest& request, std::string_view path) {
  for (const char* name : kPrograms) {
    if (auto found = search(named.empty() ? name : named, request)) return *std::move(found);
  }
  if (!named.empty()) {
    return base::not_found("--container-program: '{}' is not a program on that host (PATH is {})",
                           base::printable(named), base::printable(path));
  }
  return base::not_found(
      "--container needs apptainer or singularity, and neither is in PATH ({}): install apptainer on "
      "that host, or name another program with --container-program",
      base::printable(path));
}

void add(const fs::path& folder, std::vector<std::string>& folders) {
  // Skip "/", because binding the host's root over the image's root would leave no container.
  if (!folder.is_absolute() || folder == "/" || !is_there(folder)) return;
  const std::string name = folder.string();
  if (std::ranges::find(folders, name) == folders.end()) folders.push_back(name);
}

// Adds the folders of Muster's package in a folder of PYTHONPATH. In a build tree the package is a link, and the
// library lies in a folder beside.
void add_package(const fs::path& folder, std::vector<std::string>& folders) {
  if (!is_there(folder / "muster" / "_library.py")) return;
  add(folder, folders);
  std::error_code ignored;  // a broken link leads nowhere in the container, either
  const fs::path package = fs::canonical(folder / "muster", ignored);
  if (!ignored && package.parent_path() != folder) add(package, folders);
  const fs::path library = folder.parent_path() / "lib";
  if (is_there(library / "libmuster.so")) add(library, folders);
}

std::vector<std::string> folders_of(const base::Environment& environment, const std::string& workdir) {
  std::vector<std::string> folders;
  add(workdir, folders);
  add(environment.get("MUSTER_SESSION_DIR").value_or(""), folders);
  const auto path = environment.get("PYTHONPATH");
  for (const std::string_view folder : base::split(path.value_or(""), ':')) add_package(folder, folders);
  if (const auto library = environment.get("MUSTER_LIBRARY")) add(fs::path(*library).parent_path(), folders);
  return folders;
}

}  // namespace

base::Status enter_container(const model::Container& container, const std::vector<std::string>& own_names,
                             SpawnRequest& request) {
  base::Environment environment;
  for (const std::string& entry : request.env) {
    const auto at = entry.find('=');
    if (at != std::string::npos) environment.set(entry.substr(0, at), entry.substr(at + 1));
  }
  MUSTER_ASSIGN_OR_RETURN(std::string program,
                          find_program(container.program, request, environment.get("PATH").value_or("not set")));
  const std::vector<std::string> folders = folders_of(environment, request.workdir);
  for (const std::string& folder : folders) {
    if (folder.find_first_of(":,") == std::string::npos) continue;
    return base::invalid_argument("--container: '{}' cannot be bound: its name holds ':' or ','",
                                  base::printable(folder));
  }
  request.argv = model::container_command(container, program, folders, request.workdir, request.argv);
  model::add_container_variables(own_names, request.env);
  return base::ok_status();
}

}  // namespace muster::agent::launch
