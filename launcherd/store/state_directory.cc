#include "launcherd/store/state_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/strings.h"

namespace muster::launcherd::inline store {
namespace {

struct SharedFileSystem {
  long type;
  std::string_view name;
};

// Type numbers from linux/magic.h, or else from statfs(2) or the file system's sources. FUSE is missing, because a FUSE
// file system may be local.
constexpr SharedFileSystem kShared[] = {{NFS_SUPER_MAGIC, "NFS"}, {SMB_SUPER_MAGIC, "SMB"},  {0xFF534D42, "CIFS"},
                                        {0xFE534D42, "SMB2"},     {AFS_SUPER_MAGIC, "AFS"},  {V9FS_MAGIC, "9P"},
                                        {0x00C36400, "Ceph"},     {0x0BD00BD0, "Lustre"},    {0x47504653, "GPFS"},
                                        {0x19830326, "BeeGFS"},   {0xAAD7AAEA, "PanFS"},     {0x01161970, "GFS2"},
                                        {0x7461636F, "OCFS2"},    {CODA_SUPER_MAGIC, "Coda"}};

base::Status check_is_absolute(const std::string& path) {
  if (path.starts_with('/')) return base::ok_status();
  return base::invalid_argument("the state directory '{}' is not an absolute path", base::printable(path));
}

base::Status make_parents(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
      return base::errno_error(errno, fmt::format("create {}", parent));
    }
  }
  return base::ok_status();
}

base::Status check_file_system(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return base::errno_error(errno, fmt::format("look at the disk of {}", path));
  const auto shared = shared_file_system(static_cast<long>(info.f_type));
  if (!shared) return base::ok_status();
  return base::failed_precondition(
      "{} is on {}, which other hosts can write: choose a directory on a local disk with --state DIR", path, *shared);
}

// Returns the name of the lock's holder, with the pid that it wrote. Only for messages.
std::string holder_of(const std::string& lock) {
  const auto content = base::read_file(lock, 64);
  const auto pid = content.ok() ? base::parse_decimal(base::trim(*content), 1L << 30) : std::nullopt;
  return pid ? fmt::format("launcherd with pid {}", *pid) : std::string("another launcherd");
}

base::Status write_pid(int fd, const std::string& path) {
  const std::string line = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0) return base::errno_error(errno, fmt::format("write {}", path));
  return base::write_all_blocking(fd, line.data(), line.size()).with_context(path);
}

}  // namespace

base::Result<std::string> default_state_directory(const base::Environment& environment, std::string_view host_name) {
  const bool is_name =
      !host_name.empty() && host_name.front() != '.' && std::ranges::all_of(host_name, [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
               c == '_';
      });
  if (!is_name) {
    return base::invalid_argument("the host name '{}' cannot name a directory: choose one with --state DIR",
                                  base::printable(host_name));
  }
  const auto state = environment.get("XDG_STATE_HOME");
  if (state && state->starts_with('/')) return fmt::format("{}/muster/{}", *state, host_name);
  const auto home = environment.get("HOME");
  if (!home || !home->starts_with('/')) {
    return base::failed_precondition(
        "neither XDG_STATE_HOME nor HOME is an absolute path: choose a directory with --state DIR");
  }
  return fmt::format("{}/.local/state/muster/{}", *home, host_name);
}

std::optional<std::string_view> shared_file_system(long type) {
  const auto* const found = std::ranges::find(kShared, type, &SharedFileSystem::type);
  if (found == std::end(kShared)) return std::nullopt;
  return found->name;
}

base::Result<StateUse> StateDirectory::look(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(check_is_absolute(path));
  const base::Status checked = base::check_private_directory(path);
  if (checked.code() == base::Code::kNotFound) return StateUse::kMissing;
  MUSTER_RETURN_IF_ERROR(checked);
  MUSTER_RETURN_IF_ERROR(check_file_system(path));
  const std::string name = path + "/lock";
  const base::UniqueFd lock(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.valid()) {
    if (errno == ENOENT) return StateUse::kFree;
    return base::errno_error(errno, fmt::format("open {}", name));
  }
  if (::flock(lock.get(), LOCK_SH | LOCK_NB) == 0) return StateUse::kFree;
  if (errno != EWOULDBLOCK) return base::errno_error(errno, fmt::format("lock {}", name));
  return StateUse::kInUse;
}

base::Result<StateDirectory> StateDirectory::open(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(check_is_absolute(path));
  MUSTER_RETURN_IF_ERROR(make_parents(path));
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(path));
  MUSTER_RETURN_IF_ERROR(check_file_system(path));
  const std::string name = path + "/lock";
  base::UniqueFd lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return base::errno_error(errno, fmt::format("open {}", name));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return base::errno_error(errno, fmt::format("lock {}", name));
    return base::already_exists("{} is in use by {}: end it, or choose another directory with --state DIR", path,
                                holder_of(name));
  }
  MUSTER_RETURN_IF_ERROR(write_pid(lock.get(), name));
  return StateDirectory(path, std::move(lock));
}

}  // namespace muster::launcherd::store
