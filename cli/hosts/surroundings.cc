#include "cli/hosts/surroundings.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>

namespace muster::cli::inline hosts {

namespace {

// A path below the prefix that has the programs' folder.
std::string installed_path(const std::string& programs, const char* place) {
  return (std::filesystem::path(programs).parent_path() / place).string();
}

}  // namespace

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
  for (const char* place : {"python", "share/muster/python"}) {
    const std::filesystem::path python = installed_path(*programs, place);
    const auto dropin = python / "muster" / "dropin";
    std::error_code ignored;  // a folder that cannot be examined counts as missing
    if (std::filesystem::is_directory(dropin / "horovod", ignored)) return {python.string(), dropin.string()};
  }
  return {};
}

base::Result<std::string> find_agent(const base::Environment& environment) {
  if (const auto given = environment.get("MUSTER_AGENT_PATH")) return std::string(*given);
  MUSTER_ASSIGN_OR_RETURN(const std::string directory, program_directory());
  const std::string beside = directory + "/muster-agent";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  const std::string installed = installed_path(directory, "libexec/muster/muster-agent");
  if (::access(installed.c_str(), X_OK) == 0) return installed;
  return base::not_found("{} and {} are missing: build or install muster-agent, or name another by MUSTER_AGENT_PATH",
                         beside, installed);
}

void hide_memory() {
  (void)::prctl(PR_SET_DUMPABLE, 0);  // fails only for a wrong argument
}

}  // namespace muster::cli::hosts
