#include "cli/hosts/surroundings.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>

namespace muster::cli::inline hosts {

std::string logical_working_directory(const base::Environment& environment) {
  if (const auto pwd = environment.get("PWD"); pwd && pwd->starts_with('/')) {
    struct stat named {};
    struct stat actual {};
    if (::stat(std::string(*pwd).c_str(), &named) == 0 && ::stat(".", &actual) == 0 && named.st_dev == actual.st_dev &&
        named.st_ino == actual.st_ino) {
      return std::string(*pwd);
    }
  }
  std::error_code failed;
  const auto path = std::filesystem::current_path(failed);
  return failed ? "/" : path.string();
}

std::string absolute_path(const std::string& path, const std::string& directory) {
  if (path.empty() || path.front() == '/') return path;
  return (std::filesystem::path(directory) / path).lexically_normal().string();
}

unsigned current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

base::Result<std::string> program_directory() {
  char own[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", own, sizeof own);
  if (length <= 0) return base::errno_error(errno, "find the path of this program");
  return std::filesystem::path(std::string(own, static_cast<std::size_t>(length))).parent_path().string();
}

std::vector<std::string> python_folders() {
  const auto programs = program_directory();
  if (!programs.ok()) return {};
  const auto python = std::filesystem::path(*programs).parent_path() / "python";
  const auto dropin = python / "muster" / "dropin";
  std::error_code ignored;  // a folder that cannot be examined counts as missing
  if (!std::filesystem::is_directory(dropin / "horovod", ignored)) return {};
  return {python.string(), dropin.string()};
}

base::Result<std::string> find_agent(const base::Environment& environment) {
  if (const auto given = environment.get("MUSTER_AGENT_PATH")) return std::string(*given);
  MUSTER_ASSIGN_OR_RETURN(const std::string directory, program_directory());
  const std::string path = directory + "/muster-agent";
  if (::access(path.c_str(), X_OK) != 0) {
    return base::not_found(
        "{} is missing: it belongs beside this program; build or install it, or name another by MUSTER_AGENT_PATH",
        path);
  }
  return path;
}

void hide_memory() {
  (void)::prctl(PR_SET_DUMPABLE, 0);  // fails only for a wrong argument
}

}  // namespace muster::cli::hosts
