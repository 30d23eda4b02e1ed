#include "agent/strays/stray_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <optional>

#include "agent/proc/cgroup.h"
#include "agent/proc/session_dir.h"
#include "base/directory.h"
#include "base/ids.h"
#include "base/net.h"
#include "base/strings.h"

namespace muster::agent::inline strays {
namespace {

constexpr std::string_view kSocketPrefix = "job-";
constexpr std::string_view kSocketSuffix = ".sock";
constexpr std::string_view kPrefix = "muster-";
constexpr std::size_t kJobIdLength = 8;
constexpr int kMaxCgroups = 10'000;
constexpr int kMaxDepth = 12;

// Returns the file's age. nullopt if it is gone, not of this type, or another user's.
std::optional<std::chrono::seconds> age_of_own(const std::string& path, mode_t type) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || (info.st_mode & S_IFMT) != type || info.st_uid != ::geteuid()) {
    return std::nullopt;
  }
  return std::chrono::seconds(std::max<long>(0, ::time(nullptr) - info.st_mtime));
}

// Returns the job in a name muster-<job> or muster-<job>-… . Empty for any other name.
std::string job_in_name(const std::string& name) {
  if (!name.starts_with(kPrefix)) return "";
  const std::string rest = name.substr(kPrefix.size());
  if (rest.size() > kJobIdLength && rest[kJobIdLength] != '-') return "";
  const auto job = base::JobId::parse(std::string_view(rest).substr(0, kJobIdLength));
  return job.ok() ? job->str() : "";
}

void search_cgroups(const std::string& path, int depth, int& budget, std::vector<StrayFile>& found) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (entry->d_type != DT_DIR || name == "." || name == "..") continue;
    if (--budget < 0) return;
    const std::string below = fmt::format("{}/{}", path, name);
    const std::string job = job_in_name(name);
    if (job.empty()) {
      if (depth < kMaxDepth) search_cgroups(below, depth + 1, budget, found);
      continue;
    }
    const auto age = age_of_own(below, S_IFDIR);
    const auto cgroup = Cgroup::open(below);
    if (age && cgroup.ok() && !cgroup->is_populated()) found.push_back({StrayFileKind::kCgroup, job, below, *age});
  }
}

base::Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return base::ok_status();
  return base::errno_error(errno, fmt::format("remove {}", path));
}

}  // namespace

std::vector<StrayFile> find_abandoned_sockets(const std::vector<std::string>& directories) {
  std::vector<StrayFile> found;
  for (const std::string& directory : directories) {
    if (!is_private_directory(directory)) continue;  // false also for a link, which another user may have made
    for (const std::string& name : base::entries_of(directory)) {
      if (!name.starts_with(kSocketPrefix) || !name.ends_with(kSocketSuffix)) continue;
      const auto job = base::JobId::parse(std::string_view(name).substr(
          kSocketPrefix.size(), name.size() - kSocketPrefix.size() - kSocketSuffix.size()));
      const std::string path = fmt::format("{}/{}", directory, name);
      const auto age = age_of_own(path, S_IFSOCK);
      if (job.ok() && age && base::is_abandoned_socket(path)) {
        found.push_back({StrayFileKind::kSocket, job->str(), path, *age});
      }
    }
  }
  return found;
}

std::string cgroup_root(const std::string& mountinfo) {
  // Find the mount as if our own cgroup were the root of the mounted hierarchy.
  const auto root = find_own_cgroup(mountinfo, "0::/");
  return root.ok() ? *root : "";
}

std::vector<StrayFile> find_empty_cgroups(const std::string& root) {
  std::vector<StrayFile> found;
  int budget = kMaxCgroups;
  if (!root.empty()) search_cgroups(root, 0, budget, found);
  return found;
}

std::vector<StrayFile> find_shared_memory(const std::string& directory) {
  std::vector<StrayFile> found;
  for (const std::string& name : base::entries_of(directory)) {
    const std::string job = job_in_name(name);
    if (job.empty()) continue;
    const std::string path = fmt::format("{}/{}", directory, name);
    if (const auto age = age_of_own(path, S_IFREG)) found.push_back({StrayFileKind::kSharedMemory, job, path, *age});
  }
  return found;
}

base::Status remove_stray_file(const StrayFile& file) {
  switch (file.kind) {
    case StrayFileKind::kSocket:
      if (!is_private_directory(file.path.substr(0, file.path.rfind('/')))) {
        return base::failed_precondition("{} is no longer in a directory of this user", file.path);
      }
      if (!base::is_abandoned_socket(file.path)) {
        return base::failed_precondition("a process listens at {} now", file.path);
      }
      return remove_file(file.path);
    case StrayFileKind::kSharedMemory:
      return remove_file(file.path);
    case StrayFileKind::kCgroup: {
      const auto cgroup = Cgroup::open(file.path);
      if (!cgroup.ok() && cgroup.status().code() == base::Code::kNotFound) return base::ok_status();
      MUSTER_RETURN_IF_ERROR(cgroup.status());
      if (cgroup->is_populated()) {
        return base::failed_precondition("{} has processes now", file.path);
      }
      return cgroup->remove();
    }
  }
  return base::ok_status();
}

}  // namespace muster::agent::strays
