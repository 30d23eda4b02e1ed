// The whole of EnvStore. Read find() and hold() first, then unpack(), fill() and settle(), then sweep().
#include "agent/stage/env_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "agent/stage/env_tree.h"
#include "agent/stage/env_unpack.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/strings.h"
#include "base/trusted_folder.h"
#include "proto/env_archive.h"

namespace muster::agent::inline stage {
namespace {

namespace fs = std::filesystem;
using base::Result;
using base::Status;

constexpr std::string_view kNew = ".new.";
constexpr std::string_view kGone = ".gone.";
constexpr std::string_view kPack = ".pack";
constexpr std::size_t kNameBytes = 8;  // random bytes in a name
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kMostMark = 256;
constexpr const char* kPythons[] = {"python3", "python"};

std::string boot_id() {
  const auto content = base::read_file("/proc/sys/kernel/random/boot_id", kMostMark);
  return content.ok() ? std::string(base::trim(*content)) : std::string("unknown");
}

std::chrono::seconds age_of(std::int64_t seconds) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return now - std::chrono::seconds(seconds);
}

struct Mark {
  std::string boot{};
  std::uint64_t bytes = 0;
  std::chrono::seconds idle{};
};

std::optional<Mark> read_mark(const std::string& environment) {
  const std::string path = environment + "/" + kEnvMark;
  struct stat info {};
  const auto content = base::read_file(path, kMostMark);
  if (!content.ok() || ::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const auto words = base::split(base::trim(*content), ' ');
  if (words.size() != 2) return std::nullopt;
  const auto bytes = base::parse_decimal(words[1], std::numeric_limits<long>::max());
  return Mark{std::string(words[0]), static_cast<std::uint64_t>(bytes.value_or(0)), age_of(info.st_mtim.tv_sec)};
}

// Opens a folder of ours. The descriptor is invalid if there is none.
Result<base::UniqueFd> open_own(const std::string& path) {
  base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return fd;
  const int problem = fd.valid() ? 0 : errno;
  struct stat info {};
  if ((fd.valid() ? ::fstat(fd.get(), &info) : ::lstat(path.c_str(), &info)) != 0) {
    return base::errno_error(errno, "inspect " + base::printable(path));
  }
  MUSTER_RETURN_IF_ERROR(
      base::check_trusted_folder(info, path));  // also if it is closed to us: its owner is the reason
  return problem == 0 ? Result<base::UniqueFd>(std::move(fd))
                      : base::errno_error(problem, "open " + base::printable(path));
}

// Locks a folder, unless it was removed meanwhile. LOCK_EX does not wait. LOCK_SH waits for a holder of LOCK_EX, which
// only renames the folder.
bool lock_folder(const base::UniqueFd& fd, const std::string& path, int how) {
  int result = 0;
  do {
    result = ::flock(fd.get(), how == LOCK_EX ? LOCK_EX | LOCK_NB : how);
  } while (result != 0 && errno == EINTR);
  struct stat held {};
  struct stat named {};
  return result == 0 && ::fstat(fd.get(), &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

// Changes the time of the last change of all files, and no other time. Cleaners look at that one, too.
void make_recent(const std::string& environment) {
  std::error_code ignored;
  fs::recursive_directory_iterator at(environment, ignored);
  for (; !ignored && at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    constexpr auto kSame = static_cast<uid_t>(-1);
    (void)!::fchownat(AT_FDCWD, at->path().c_str(), kSame, static_cast<gid_t>(kSame), AT_SYMLINK_NOFOLLOW);
  }
  (void)::utimensat(AT_FDCWD, (environment + "/" + kEnvMark).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

// A virtual environment needs the Python that made it.
Status check_python(const std::string& environment) {
  if (::access((environment + "/pyvenv.cfg").c_str(), F_OK) != 0) return base::ok_status();
  for (const char* const name : kPythons) {
    const std::string path = fmt::format("{}/bin/{}", environment, name);
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || ::stat(path.c_str(), &info) == 0 || errno != ENOENT) continue;
    std::error_code ignored;
    return base::failed_precondition(
        "bin/{} of the environment leads to {}, which this host does not have: install the same Python there, or stage "
        "an environment that contains its Python, as conda's do",
        name, base::printable(fs::read_symlink(path, ignored).string()));
  }
  return base::ok_status();
}

}  // namespace

Result<EnvStore> EnvStore::open(const std::string& folder) {
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(folder));
  return EnvStore(folder);
}

Result<bool> EnvStore::find(const std::string& id) const {
  const auto held = hold(id);
  if (held.status().code() == base::Code::kNotFound) return false;
  MUSTER_RETURN_IF_ERROR(held.status());
  const auto mark = read_mark(path_of(id));
  if (mark && mark->idle >= kRecent) make_recent(path_of(id));
  return mark.has_value();
}

Result<base::UniqueFd> EnvStore::hold(const std::string& id) const {
  const std::string path = path_of(id);
  if (!proto::is_env_id(id)) return base::invalid_argument("'{}' is not the id of an environment", base::printable(id));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, open_own(path));
  bool is_there = fd.valid() && lock_folder(fd, path, LOCK_SH);
  const auto mark = is_there ? read_mark(path) : std::nullopt;
  if (!mark || mark->boot != boot_id()) is_there = false;
  // A job that runs for longer than kForgotten has kept its environment as it is.
  if (is_there && mark->idle >= kForgotten)
    is_there = !lock_folder(fd, path, LOCK_EX) && lock_folder(fd, path, LOCK_SH);
  if (!is_there) return base::not_found("the environment {} is not on this host: start the job again", path);
  return fd;
}

Status EnvStore::unpack(const std::string& id, const std::atomic<bool>* stop) const {
  sweep();
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, find(id));
  const std::string pack = path_of(id) + std::string(kPack);
  if (is_there) {
    // Another job has unpacked its own archive, perhaps before this job's archive came.
    (void)::unlink(pack.c_str());
    return base::ok_status();
  }
  const std::string fresh = fmt::format("{}/{}{}", folder_, kNew, base::random_hex(kNameBytes));
  Status status = fill(id, fresh, stop);
  if (status.ok()) status = settle(id, fresh);
  std::error_code ignored;
  if (!status.ok()) fs::remove_all(fresh, ignored);
  if (status.code() != base::Code::kCancelled) (void)::unlink(pack.c_str());  // the next start would use it
  if (status.code() == base::Code::kNotFound) {
    // Another job has unpacked it, and has removed the archive.
    const auto found = find(id);
    if (found.ok() && *found) return base::ok_status();
  }
  return status.with_context("unpack into " + folder_);
}

Status EnvStore::fill(const std::string& id, const std::string& fresh, const std::atomic<bool>* stop) const {
  const std::string pack = path_of(id) + std::string(kPack);
  const base::UniqueFd archive(::open(pack.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!archive.valid()) return base::errno_error(errno, "open " + pack);
  if (::mkdir(fresh.c_str(), 0700) != 0) return base::errno_error(errno, "make the folder " + fresh);
  base::UniqueFd folder(::open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return base::errno_error(errno, "open " + fresh);
  const base::UniqueFd held(::open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!held.valid() || !lock_folder(held, fresh, LOCK_SH)) return base::errno_error(errno, "lock " + fresh);
  EnvTree tree(std::move(folder), path_of(id));
  std::string piece(kPiece, '\0');
  const auto read = [&]() -> Result<std::string_view> {
    const ssize_t count = ::read(archive.get(), piece.data(), piece.size());
    if (count < 0) return base::errno_error(errno, "read " + pack);
    return std::string_view(piece).substr(0, static_cast<std::size_t>(count));
  };
  MUSTER_ASSIGN_OR_RETURN(const std::string found, unpack_environment(read, tree, stop));
  if (found != id) return base::data_loss("the packed environment is damaged: it contains {}", found);
  MUSTER_RETURN_IF_ERROR(check_python(fresh));
  return base::write_file_atomically(fresh + "/" + kEnvMark, fmt::format("{} {}\n", boot_id(), tree.bytes()));
}

// Gives the complete environment its name.
Status EnvStore::settle(const std::string& id, const std::string& fresh) const {
  const std::string path = path_of(id);
  MUSTER_RETURN_IF_ERROR(remove_path(path).status());  // one that does not count
  if (::rename(fresh.c_str(), path.c_str()) == 0) return base::ok_status();
  const int problem = errno;
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, find(id));  // another job was faster
  if (!is_there) return base::errno_error(problem, fmt::format("rename {} to {}", fresh, path));
  std::error_code ignored;
  fs::remove_all(fresh, ignored);
  return base::ok_status();
}

// Returns false if somebody uses the folder. True also if there is none.
Result<bool> EnvStore::remove_path(const std::string& path) const {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, open_own(path));
  if (!fd.valid()) return true;
  if (!lock_folder(fd, path, LOCK_EX)) return false;
  // Under another name nobody finds it half-removed.
  const std::string gone = fmt::format("{}/{}{}", folder_, kGone, base::random_hex(kNameBytes));
  if (::rename(path.c_str(), gone.c_str()) != 0) return base::errno_error(errno, "remove " + base::printable(path));
  fd.reset();  // others may wait for the lock
  std::error_code problem;
  fs::remove_all(gone, problem);
  return problem ? Result<bool>(base::errno_error(problem.value(), "remove " + gone)) : true;
}

void EnvStore::sweep() const {
  for (const std::string& name : base::entries_of(folder_)) {
    const std::string path = folder_ + "/" + name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) continue;
    const bool is_abandoned = age_of(info.st_ctim.tv_sec) >= kAbandoned;
    if (is_abandoned && (name.starts_with(kNew) || name.starts_with(kGone))) (void)remove_path(path);
    if (age_of(info.st_ctim.tv_sec) >= kRecent && name.ends_with(kPack)) (void)::unlink(path.c_str());
    if (!proto::is_env_id(name)) continue;
    const auto mark = read_mark(path);
    const bool counts = mark && mark->boot == boot_id() && mark->idle < kForgotten;
    if (!counts) (void)remove_path(path);
  }
}

std::vector<StoredEnv> EnvStore::list() const {
  std::vector<StoredEnv> found;
  for (const std::string& name : base::entries_of(folder_)) {
    if (!proto::is_env_id(name)) continue;
    const std::string path = folder_ + "/" + name;
    const auto fd = open_own(path);
    if (!fd.ok() || !fd->valid()) continue;
    const auto mark = read_mark(path);
    found.push_back({.path = path, .bytes = mark ? mark->bytes : 0, .idle = mark ? mark->idle : kForgotten});
    found.back().is_used = !lock_folder(*fd, path, LOCK_EX);
  }
  return found;
}

Result<bool> EnvStore::remove(const std::string& id) const {
  return remove_path(path_of(id));
}

}  // namespace muster::agent::stage
