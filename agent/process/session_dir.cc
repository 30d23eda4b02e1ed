#include "agent/process/session_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "agent/process/mpich_memory.h"
#include "agent/process/session_notes.h"
#include "base/env.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/strings.h"

namespace muster::agent {
namespace {

constexpr int kAttempts = 10;
constexpr std::size_t kLeaseWidth = 80;
constexpr std::string_view kNoLease = "none";

std::string root_or_default(const std::string& root) {
  if (!root.empty()) return root;
  const auto from_environment = base::env_var("MUSTER_TMPDIR");
  return from_environment && !from_environment->empty() ? *from_environment : "/tmp";
}

std::string boot_id() {
  const auto content = base::read_file("/proc/sys/kernel/random/boot_id", 256);
  return content.ok() ? std::string(base::trim(*content)) : std::string("unknown");
}

// Removes what is in the directory `fd`, never following a link.
base::Status empty_directory(base::UniqueFd fd, const std::string& shown) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) return base::errno_error(errno, fmt::format("read the directory {}", shown));
  const int at = fd.release();  // owned by `directory` now
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    base::UniqueFd below(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below.valid()) return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    MUSTER_RETURN_IF_ERROR(empty_directory(std::move(below), fmt::format("{}/{}", shown, name)));
    if (::unlinkat(at, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    }
  }
  return base::ok_status();
}

// The path must still name the file that was locked: a sweep may have removed it in between.
bool is_same_file(int fd, const std::string& path) {
  struct stat by_fd {};
  struct stat by_path {};
  return ::fstat(fd, &by_fd) == 0 && ::lstat(path.c_str(), &by_path) == 0 && by_fd.st_ino == by_path.st_ino &&
         by_fd.st_dev == by_path.st_dev;
}

// Zero: no lease is in force any more.
std::chrono::milliseconds lease_left(const std::string& content) {
  using std::chrono::nanoseconds;
  const auto words = base::split(base::trim(content), ' ');
  if (words.size() != 2 || words[0] == kNoLease || words[1] != boot_id()) return {};
  const auto until = base::parse_decimal(words[0], std::numeric_limits<long>::max());
  const nanoseconds now = base::SystemClock().now().time_since_epoch();
  if (!until || now > nanoseconds(*until)) return {};
  return std::chrono::ceil<std::chrono::milliseconds>(nanoseconds(*until) - now);
}

}  // namespace

std::string session_root(const std::string& root) {
  return fmt::format("{}/muster-{}", root_or_default(root), ::geteuid());
}

base::Result<SessionDir> SessionDir::create(const std::string& root, const std::string& job_id,
                                            const std::string& agent_id) {
  const std::string parent = session_root(root);
  const std::string path = fmt::format("{}/{}-{}", parent, job_id, agent_id);
  // Another job that ends may remove the empty parent, a sweep a stale directory: then it is made again.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (const auto status = base::make_private_directory(parent); !status.ok()) {
      return base::error(status.code(), "{}: MUSTER_TMPDIR can name another directory, one that every host has",
                         status.message());
    }
    if (auto status = base::make_private_directory(path); !status.ok()) {
      if (status.code() == base::Code::kNotFound) continue;
      return status;
    }
    const std::string file = path + "/alive";
    base::UniqueFd alive(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!alive.valid()) {
      if (errno == ENOENT) continue;
      return base::errno_error(errno, fmt::format("create {}", file));
    }
    if (::flock(alive.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return base::error(base::Code::kAlreadyExists, "another agent of this job holds {}", file);
      }
      return base::errno_error(errno, fmt::format("lock {}", file));
    }
    if (!is_same_file(alive.get(), file)) continue;
    SessionDir session(path, std::move(alive));
    session.write_lease(std::nullopt);
    return session;
  }
  return base::error(base::Code::kAborted, "{} is removed as fast as it is made: look for a loop of sweeps", path);
}

void SessionDir::write_lease(std::optional<base::MonotonicTime> until) const {
  const std::string time =
      until ? fmt::format("{}", std::chrono::nanoseconds(until->time_since_epoch()).count()) : std::string(kNoLease);
  static const std::string kBoot = boot_id();
  // One write of constant width: a reader sees the old or the new lease. A full disk keeps an old one, which only makes
  // a sweep act earlier, and never while the lock is held.
  const std::string line = fmt::format("{:<{}}\n", fmt::format("{} {}", time, kBoot), kLeaseWidth - 1);
  [[maybe_unused]] const ssize_t n = ::pwrite(alive_.get(), line.data(), line.size(), 0);
}

base::Status SessionDir::remove() const {
  return remove_session(path_);
}

base::Status remove_tree(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return base::ok_status();
  if (!fd.valid()) return base::errno_error(errno, fmt::format("remove {}", path));
  MUSTER_RETURN_IF_ERROR(empty_directory(std::move(fd), path));
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return base::errno_error(errno, fmt::format("remove {}", path));
  return base::ok_status();
}

std::string shared_memory_dir(const std::string& session_path) {
  return "/dev/shm/muster-" + session_path.substr(session_path.rfind('/') + 1);
}

base::Status remove_session(const std::string& path) {
  const std::string memory = shared_memory_dir(path);
  struct stat info {};
  // Everybody may make one of this name: another user's is not ours to empty.
  const bool is_ours =
      !job_of_session(path).empty() && ::lstat(memory.c_str(), &info) == 0 && info.st_uid == ::geteuid();
  base::Status shared = is_ours ? remove_tree(memory) : base::ok_status();
  for (const std::string& world : known_worlds(path)) {
    if (shared.ok()) shared = remove_mpich_memory("/dev/shm", world);
  }
  MUSTER_RETURN_IF_ERROR(remove_tree(path));
  ::rmdir(path.substr(0, path.rfind('/')).c_str());  // fails while another job is there, as it should
  return shared;
}

base::Result<std::vector<std::string>> list_sessions(const std::string& root, const std::string& job_id) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> paths, list_all_sessions(root));
  std::erase_if(paths, [&job_id](const std::string& path) { return job_of_session(path) != job_id; });
  return paths;
}

base::Result<std::vector<std::string>> list_all_sessions(const std::string& root) {
  std::vector<std::string> paths;
  const std::string parent = session_root(root);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(parent.c_str()), ::closedir);
  if (!directory && errno == ENOENT) return paths;
  if (!directory) return base::errno_error(errno, fmt::format("read the directory {}", parent));
  while (const dirent* entry = ::readdir(directory.get())) {
    std::string path = fmt::format("{}/{}", parent, entry->d_name);
    if (!job_of_session(path).empty()) paths.push_back(std::move(path));
  }
  return paths;
}

std::string job_of_session(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t dash = name.find('-');
  if (dash == std::string::npos || dash + 1 == name.size()) return "";
  const auto job = base::JobId::parse(name.substr(0, dash));
  return job.ok() ? job->str() : "";
}

base::Result<FoundSession> look_at_session(const std::string& path) {
  FoundSession found;
  found.path = path;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return base::errno_error(errno, fmt::format("look at {}", path));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return base::error(base::Code::kFailedPrecondition, "{} is not a session directory of ours", path);
  }
  const std::string file = path + "/alive";
  base::UniqueFd alive(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!alive.valid() && errno == ENOENT) return found;
  if (!alive.valid()) return base::errno_error(errno, fmt::format("open {}", file));
  const auto content = base::read_file(file, 4096);
  if (content.ok()) found.lease_left = lease_left(*content);
  found.lease_has_passed = found.lease_left.count() == 0;
  if (::flock(alive.get(), LOCK_EX | LOCK_NB) == 0) {
    found.lock = std::move(alive);
  } else if (errno == EWOULDBLOCK) {
    found.is_alive = true;
  } else {
    return base::errno_error(errno, fmt::format("lock {}", file));
  }
  return found;
}

bool may_be_alive(const base::Result<FoundSession>& look) {
  if (look.ok()) return look->is_alive;
  return look.status().code() != base::Code::kNotFound && look.status().code() != base::Code::kFailedPrecondition;
}

bool may_be_living_session(const std::string& path, const std::string& job_id) {
  return path.starts_with('/') && job_of_session(path) == job_id && may_be_alive(look_at_session(path));
}

base::Result<base::UniqueFd> open_note(const std::string& session_path, const std::string& name) {
  const std::string path = fmt::format("{}/{}", session_path, name);
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("open {}", path));
  return fd;
}

base::Status write_note(const std::string& session_path, const std::string& name, const std::string& line) {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd fd, open_note(session_path, name));
  return base::write_all_blocking(fd.get(), line.data(), line.size()).with_context(session_path + "/" + name);
}

}  // namespace muster::agent
