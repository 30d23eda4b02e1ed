#include "agent/probe/spaces.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "agent/probe/mounts.h"
#include "base/file.h"

namespace muster::agent::inline probe {
namespace {

// Returns the path without links, as the table of mounts has it. Returns `path` itself if that fails.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
  return found != nullptr ? found.get() : path;
}

v1::SpaceFact read_space(const char* purpose, const std::string& path, const std::string& mounts) {
  v1::SpaceFact fact;
  fact.set_purpose(purpose);
  fact.set_path(path);
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) {
    fact.set_failure(base::errno_error(errno, path).message());
    return fact;
  }
  const auto unit = static_cast<std::int64_t>(space.f_frsize);
  fact.set_file_system(file_system_of(mounts, real_path(path)));
  fact.set_total_bytes(static_cast<std::int64_t>(space.f_blocks) * unit);
  fact.set_free_bytes(static_cast<std::int64_t>(space.f_bavail) * unit);
  fact.set_free_files(space.f_files == 0 ? -1 : static_cast<std::int64_t>(space.f_favail));
  fact.set_read_only((space.f_flag & ST_RDONLY) != 0);
  fact.set_no_exec((space.f_flag & ST_NOEXEC) != 0);
  fact.set_writable(::access(path.c_str(), W_OK | X_OK) == 0);
  return fact;
}

}  // namespace

std::vector<v1::SpaceFact> read_spaces(const std::string& session_root, const std::string& home) {
  const auto mounts = base::read_file("/proc/self/mounts");
  const std::string table = mounts.ok() ? *mounts : "";
  std::vector<v1::SpaceFact> facts = {read_space("session", session_root, table)};
  if (!home.empty()) facts.push_back(read_space("home", home, table));
  facts.push_back(read_space("shm", "/dev/shm", table));
  return facts;
}

}  // namespace muster::agent::probe
