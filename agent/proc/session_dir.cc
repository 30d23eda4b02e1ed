// Session directories: making, locking, finding and removing them. Read SessionDir::create() and inspect_session()
// first.
// Then read remove_session() and list_all_sessions(). The helpers at the top never follow links.

#include "agent/proc/session_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "agent/proc/mpich_memory.h"
#include "agent/proc/session_notes.h"
#include "base/directory.h"
#include "base/env.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

constexpr int kAttempts = 10;
constexpr std::size_t kLeaseWidth = 80;
constexpr std::string_view kNoLease = "none";
constexpr const char* kAlive = "alive";
constexpr std::size_t kLeaseRead = 4096;
constexpr std::size_t kOtherRootBytes = 4;  // random bytes in the name of another session root

std::string root_or_default(const std::string& root) {
  if (!root.empty()) return root;
  const auto from_environment = base::env_var("MUSTER_TMPDIR");
  return from_environment && !from_environment->empty() ? *from_environment : "/tmp";
}

std::string boot_id() {
  const auto content = base::read_file("/proc/sys/kernel/random/boot_id", 256);
  return content.ok() ? std::string(base::trim(*content)) : std::string("unknown");
}

// Removes everything in the directory `fd`, never following a link. Removes the file `last` after everything else.
base::Status empty_directory(base::UniqueFd fd, const std::string& shown, std::string_view last = "") {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(fd.get()), ::closedir);
  if (!directory) return base::errno_error(errno, fmt::format("read the directory {}", shown));
  const int at = fd.release();  // owned by `directory` now
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || name == last) continue;
    if (::unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    base::UniqueFd below(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below.valid()) return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    MUSTER_RETURN_IF_ERROR(empty_directory(std::move(below), fmt::format("{}/{}", shown, name)));
    if (::unlinkat(at, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return base::errno_error(errno, fmt::format("remove {}/{}", shown, name));
    }
  }
  if (last.empty() || ::unlinkat(at, std::string(last).c_str(), 0) == 0 || errno == ENOENT) return base::ok_status();
  return base::errno_error(errno, fmt::format("remove {}/{}", shown, last));
}

bool is_empty_directory(int at) {
  const int fd = ::openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (!directory) return false;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return false;
  }
  return true;
}

enum class Privacy { kOwned, kClosedToOthers };

// Opens a directory of ours, never through a link. NOT_FOUND: nothing has this name. FAILED_PRECONDITION: it is not a
// directory of ours.
base::Result<base::UniqueFd> open_own_directory(int at, const std::string& name, const std::string& shown,
                                                Privacy privacy) {
  base::UniqueFd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const int problem = errno;
  struct stat info {};
  const bool is_there =
      fd.valid() ? ::fstat(fd.get(), &info) == 0 : ::fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  const bool is_open_to_others = privacy == Privacy::kClosedToOthers && (info.st_mode & 077) != 0;
  if (is_there && (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || is_open_to_others)) {
    return base::failed_precondition("{} is not a private directory of this user", shown);
  }
  if (fd.valid()) return fd;
  return base::errno_error(problem, fmt::format("open the directory {}", shown));
}

struct SplitPath {
  std::string parent;
  std::string name;
};

SplitPath split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Opens the directory above sessions. It belongs to us alone, so no other user can replace entries below its
// descriptor.
base::Result<base::UniqueFd> open_parent_of_session(const SplitPath& path) {
  return open_own_directory(AT_FDCWD, path.parent, path.parent, Privacy::kClosedToOthers);
}

// True if the path still names the locked file. A sweep may have removed the file before it was locked.
bool is_same_file(int fd, const std::string& path) {
  struct stat by_fd {};
  struct stat by_path {};
  return ::fstat(fd, &by_fd) == 0 && ::lstat(path.c_str(), &by_path) == 0 && by_fd.st_ino == by_path.st_ino &&
         by_fd.st_dev == by_path.st_dev;
}

bool is_another_users(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid != ::geteuid();
}

// Returns the session roots that are used instead of `usual` while another user owns the folder `usual`.
std::vector<std::string> other_session_roots(const std::string& usual) {
  std::vector<std::string> found;
  const SplitPath path = split_path(usual);
  for (const std::string& name : base::entries_of(path.parent)) {
    std::string other = fmt::format("{}/{}", path.parent, name);
    if (name.starts_with(path.name + "-") && is_session_root(other) && is_private_directory(other)) {
      found.push_back(std::move(other));
    }
  }
  return found;
}

// If another user has taken the usual name in /tmp, use a random name, which no other user can have taken before.
base::Result<std::string> make_session_root(const std::string& root) {
  std::string usual = session_root(root);
  const base::Status made = base::make_private_directory(usual);
  if (made.ok()) return usual;
  if (!is_another_users(usual)) {
    return base::error(made.code(), "{}: MUSTER_TMPDIR can name another directory, one that every host has",
                       made.message());
  }
  const std::vector<std::string> others = other_session_roots(usual);
  std::string other = others.empty() ? fmt::format("{}-{}", usual, base::random_hex(kOtherRootBytes)) : others.front();
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(other));
  return other;
}

// Zero if no lease is in force.
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

std::vector<std::string> session_roots(const std::string& root) {
  const std::string usual = session_root(root);
  std::vector<std::string> roots = other_session_roots(usual);
  if (!is_another_users(usual)) roots.insert(roots.begin(), usual);
  return roots;
}

bool is_session_root(std::string_view path) {
  const std::string usual = fmt::format("/muster-{}", ::geteuid());
  const std::size_t at = path.rfind('/');
  if (at == std::string_view::npos || !path.substr(at).starts_with(usual)) return false;
  const std::string_view rest = path.substr(at + usual.size());
  if (rest.empty()) return true;
  return rest.size() == 1 + 2 * kOtherRootBytes && rest.front() == '-' &&
         rest.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
}

bool is_private_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077) == 0;
}

base::Status check_session_root(const std::string& root) {
  const std::string usual = session_root(root);
  if (!is_another_users(usual)) return base::ok_status();
  return base::permission_denied("{} was made by another user, who should remove it; jobs use {}-… instead", usual,
                                 usual);
}

base::Result<SessionDir> SessionDir::create(const std::string& root, const std::string& job_id,
                                            const std::string& agent_id) {
  std::string path;
  // Another job that ends may remove the empty parent, and a sweep may remove a stale directory. So try again.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MUSTER_ASSIGN_OR_RETURN(const std::string parent, make_session_root(root));
    path = fmt::format("{}/{}-{}", parent, job_id, agent_id);
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
        return base::already_exists("another agent of this job holds {}", file);
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
  // One write of constant width, so that a reader sees the old or the new lease. Ignore errors: on a full disk the
  // old lease stays. That only makes a sweep act earlier, and never while the lock is held.
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

namespace {

// Removes `alive` last. If a removal is killed, what it leaves is still a session.
base::Status remove_session_directory(const SplitPath& place, const std::string& path) {
  auto parent = open_parent_of_session(place);
  if (parent.status().code() == base::Code::kNotFound) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(parent.status());
  auto session = open_own_directory(parent->get(), place.name, path, Privacy::kOwned);
  if (session.status().code() == base::Code::kNotFound) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(session.status());
  MUSTER_RETURN_IF_ERROR(empty_directory(std::move(*session), path, kAlive));
  if (::unlinkat(parent->get(), place.name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return base::ok_status();
  return base::errno_error(errno, fmt::format("remove {}", path));
}

}  // namespace

base::Status remove_session(const std::string& path) {
  const std::string memory = shared_memory_dir(path);
  const SplitPath place = split_path(path);
  struct stat info {};
  // Any user may make a folder of this name. Never empty another user's folder.
  const bool is_ours =
      !job_of_session(path).empty() && ::lstat(memory.c_str(), &info) == 0 && info.st_uid == ::geteuid();
  base::Status shared = is_ours ? remove_tree(memory) : base::ok_status();
  for (const std::string& world : known_worlds(path)) {
    if (shared.ok()) shared = remove_mpich_memory("/dev/shm", world);
  }
  MUSTER_RETURN_IF_ERROR(remove_session_directory(place, path));
  ::rmdir(place.parent.c_str());  // fails while another session is in it, as it should
  return shared;
}

base::Result<std::vector<std::string>> list_sessions(const std::string& root, const std::string& job_id) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::string> paths, list_all_sessions(root));
  std::erase_if(paths, [&job_id](const std::string& path) { return job_of_session(path) != job_id; });
  return paths;
}

base::Result<std::vector<std::string>> list_all_sessions(const std::string& root) {
  std::vector<std::string> paths;
  for (const std::string& parent : session_roots(root)) {
    auto opened = open_own_directory(AT_FDCWD, parent, parent, Privacy::kClosedToOthers);
    if (opened.status().code() == base::Code::kNotFound) continue;
    MUSTER_RETURN_IF_ERROR(opened.status());
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(opened->get()), ::closedir);
    if (!directory) return base::errno_error(errno, fmt::format("read the directory {}", parent));
    (void)opened->release();  // owned by `directory` now
    while (const dirent* entry = ::readdir(directory.get())) {
      std::string path = fmt::format("{}/{}", parent, entry->d_name);
      if (!job_of_session(path).empty()) paths.push_back(std::move(path));
    }
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

base::Result<FoundSession> inspect_session(const std::string& path) {
  FoundSession found;
  found.path = path;
  const SplitPath place = split_path(path);
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, open_parent_of_session(place));
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd session,
                          open_own_directory(parent.get(), place.name, path, Privacy::kOwned));
  const std::string file = fmt::format("{}/{}", path, kAlive);
  base::UniqueFd alive(::openat(session.get(), kAlive, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!alive.valid() && errno == ENOENT) {
    // An empty directory is normal: the file is made right after the directory, and removed right before it.
    if (is_empty_directory(session.get())) return found;
    return base::failed_precondition("{} has no file {}: it is not a session directory", path, kAlive);
  }
  if (!alive.valid()) return base::errno_error(errno, fmt::format("open {}", file));
  std::string content(kLeaseRead, '\0');
  const ssize_t size = ::pread(alive.get(), content.data(), content.size(), 0);
  if (size > 0) found.lease_left = lease_left(content.substr(0, static_cast<std::size_t>(size)));
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

bool may_be_alive(const base::Result<FoundSession>& session) {
  if (session.ok()) return session->is_alive;
  return session.status().code() != base::Code::kNotFound && session.status().code() != base::Code::kFailedPrecondition;
}

bool may_be_living_session(const std::string& path, const std::string& job_id) {
  return path.starts_with('/') && job_of_session(path) == job_id && may_be_alive(inspect_session(path));
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

}  // namespace muster::agent::proc
