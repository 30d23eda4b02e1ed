// The whole of StageFolder. Read open() and parent_of() first, then check(), which compares one item.
// Then read begin() and write(), which store one file, and sweep(), which removes files of killed stagings.

#include "agent/stage/stage_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/ids.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "base/trusted_folder.h"

namespace muster::agent::inline stage {
namespace {

using base::Code;
using base::Result;
using base::Status;

constexpr std::size_t kLongestPath = 4096;
constexpr std::size_t kLongestName = 255;
constexpr const char* kOurs = ".muster-stage.";  // the beginning of the names of marks
constexpr unsigned kPermissions = 0777;
constexpr unsigned kOthersWrite = 0022;
constexpr unsigned kMadeFolder = 0755;
constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::string_view name_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::int64_t mtime_of(const struct stat& info) {
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * kNanoseconds + info.st_mtim.tv_nsec;
}

// True if mkdir may have failed because the folder exists. A read-only file system reports EROFS before it checks
// whether the folder exists.
bool may_be_there(int problem) {
  return problem == EEXIST || problem == EROFS;
}

}  // namespace

bool is_inner_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath || path.find('\0') != std::string_view::npos) return false;
  return std::ranges::none_of(base::split(path, '/'), [](std::string_view name) {
    return name.empty() || name == "." || name == ".." || name.size() > kLongestName;
  });
}

Status set_time(int fd, std::int64_t mtime_ns) {
  const std::int64_t seconds = mtime_ns / kNanoseconds - (mtime_ns % kNanoseconds < 0 ? 1 : 0);
  const timespec time{.tv_sec = seconds, .tv_nsec = mtime_ns - seconds * kNanoseconds};
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, time};
  return ::futimens(fd, times) == 0 ? base::ok_status() : base::errno_error(errno, "set the time");
}

StageFolder::StageFolder(std::string directory, base::UniqueFd fd, Status trust, std::chrono::seconds abandoned)
    : directory_(std::move(directory)),
      fd_(std::move(fd)),
      trust_(std::move(trust)),
      abandoned_(abandoned),
      half_name_(fmt::format("{}.{}", kHalfPrefix, base::random_hex(8))) {}

Result<StageFolder> StageFolder::open(const std::string& directory, std::chrono::seconds abandoned) {
  const bool is_path =
      directory.starts_with('/') && directory.size() <= kLongestPath && directory.find('\0') == std::string::npos;
  if (!is_path) return base::invalid_argument("'{}' is not an absolute path", base::printable(directory));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, base::open_folder_by_trusted_path(directory));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return base::errno_error(errno, "inspect " + base::printable(directory));
  Status trust = base::check_trusted_folder(info, directory);
  return StageFolder(directory, std::move(fd), std::move(trust), abandoned);
}

StageFolder::~StageFolder() {
  drop_half();
  if (!mark_.empty()) (void)::unlinkat(fd_.get(), mark_.c_str(), 0);
}

Status StageFolder::failed(int errno_value, std::string_view what, const StageItem& item) const {
  return base::errno_error(errno_value,
                           fmt::format("{} {}/{}", what, base::printable(directory_), base::printable(item.path)));
}

Status StageFolder::mark(const std::string& name) {
  if (!is_inner_path(name) || name.find('/') != std::string::npos) {
    return base::invalid_argument("'{}' is not a file name", base::printable(name));
  }
  remove_abandoned(fd_.get(), kOurs);
  const base::UniqueFd made(::openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!made.valid() && errno == EROFS) return base::ok_status();
  if (!made.valid() && !trust_.ok()) return trust_;
  if (!made.valid()) return base::errno_error(errno, fmt::format("make a file in {}", base::printable(directory_)));
  mark_ = name;
  return base::ok_status();
}

Result<std::vector<std::string>> StageFolder::marks(const std::string& prefix) const {
  // Open a new listing. A listing of fd_ would continue where the last one ended.
  const int fd = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  if (listing == nullptr) return base::errno_error(errno, fmt::format("list {}", base::printable(directory_)));
  std::vector<std::string> names;
  while (const dirent* const entry = ::readdir(listing.get())) {
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  }
  return names;
}

Result<base::UniqueFd> StageFolder::parent_of(const StageItem& item, bool make) const {
  if (!is_inner_path(item.path)) {
    return base::invalid_argument("'{}' is not a path within a folder", base::printable(item.path));
  }
  MUSTER_RETURN_IF_ERROR(trust_);
  base::UniqueFd at(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return failed(errno, "reach", item);
  std::size_t begin = 0;
  for (std::size_t end = item.path.find('/'); end != std::string::npos; end = item.path.find('/', begin)) {
    const std::string name = item.path.substr(begin, end - begin);
    begin = end + 1;
    if (make && ::mkdirat(at.get(), name.c_str(), kMadeFolder) != 0 && !may_be_there(errno)) {
      return failed(errno, "make", item);
    }
    base::UniqueFd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) {
      if (errno == ENOTDIR || errno == ELOOP) {
        return base::failed_precondition("{}/{}: {} is not a folder on that host: remove it, or stage elsewhere",
                                         base::printable(directory_), base::printable(item.path),
                                         base::printable(name));
      }
      return failed(errno, "reach", item);
    }
    MUSTER_RETURN_IF_ERROR(close_to_others(next.get(), item.path.substr(0, begin - 1)));
    at = std::move(next);
  }
  return at;
}

// Removes other users' write permission from a folder below ours. An earlier Muster may have made it with the
// source's mode. Only its owner can change that.
Status StageFolder::close_to_others(int folder, const std::string& path) const {
  struct stat info {};
  if (::fstat(folder, &info) != 0) return base::errno_error(errno, "inspect " + base::printable(path));
  Status trusted = base::check_trusted_folder(info, directory_ + "/" + path);
  if (trusted.ok() || !base::is_trusted_owner(info.st_uid)) return trusted;
  return ::fchmod(folder, info.st_mode & 07777 & ~kOthersWrite) == 0 ? base::ok_status() : trusted;
}

Status StageFolder::make_folder(const StageItem& item) const {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, parent_of(item, true));
  const std::string name(name_of(item.path));
  // The folder's owner must be able to fill it, and no other user may.
  const unsigned mode = (item.mode & kPermissions & ~kOthersWrite) | 0700;
  if (::mkdirat(parent.get(), name.c_str(), mode) != 0 && !may_be_there(errno)) return failed(errno, "make", item);
  const base::UniqueFd made(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made.valid() && errno == ENOENT) return failed(EROFS, "make", item);
  if (!made.valid()) {
    return base::failed_precondition("{}/{} is not a folder on that host: remove it, or stage elsewhere",
                                     base::printable(directory_), base::printable(item.path));
  }
  struct stat info {};
  if (::fstat(made.get(), &info) != 0) return failed(errno, "inspect", item);
  if (!base::is_trusted_owner(info.st_uid)) return base::check_trusted_folder(info, directory_ + "/" + item.path);
  if ((info.st_mode & kPermissions) == mode) return base::ok_status();
  return ::fchmod(made.get(), mode) == 0 ? base::ok_status() : failed(errno, "set the permissions of", item);
}

Status StageFolder::make_link(const StageItem& item) {
  if (item.target.empty() || item.target.size() > kLongestPath || item.target.find('\0') != std::string::npos) {
    return base::invalid_argument("{} is a link to nothing", base::printable(item.path));
  }
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, parent_of(item, true));
  const std::string name(name_of(item.path));
  std::string there(kLongestPath, '\0');
  const ssize_t length = ::readlinkat(parent.get(), name.c_str(), there.data(), there.size());
  if (length >= 0 && there.substr(0, static_cast<std::size_t>(length)) == item.target) return base::ok_status();
  // Use another name than half_name_, because a half-written file may have that name in this folder.
  const std::string half = half_name_ + ".link";
  sweep(parent.get(), item);
  if (::symlinkat(item.target.c_str(), parent.get(), half.c_str()) != 0) return failed(errno, "make the link", item);
  if (::renameat(parent.get(), half.c_str(), parent.get(), name.c_str()) == 0) return base::ok_status();
  const int problem = errno;
  (void)::unlinkat(parent.get(), half.c_str(), 0);
  return failed(problem, "make the link", item);
}

Result<StageCheck> StageFolder::check(const StageItem& item, const std::atomic<bool>* stop, Digest digest_wanted) {
  StageCheck result;
  if (item.kind == StageItem::Kind::kFolder) {
    MUSTER_RETURN_IF_ERROR(make_folder(item));
    return result;
  }
  if (item.kind == StageItem::Kind::kLink) {
    MUSTER_RETURN_IF_ERROR(make_link(item));
    return result;
  }
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, parent_of(item, true));
  const std::string name(name_of(item.path));
  struct stat info {};
  if (::fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) return failed(errno, "inspect", item);
    result.verdict = StageVerdict::kContent;
    return result;
  }
  if (S_ISDIR(info.st_mode)) {
    return base::failed_precondition("{}/{} is a folder on that host, but a file here: remove it, or stage elsewhere",
                                     base::printable(directory_), base::printable(item.path));
  }
  result.verdict = StageVerdict::kContent;
  // Trust size and time only if the file has a trusted owner. Any owner can change the content and keep size and
  // time.
  if (!S_ISREG(info.st_mode) || !base::is_trusted_owner(info.st_uid)) return result;
  if (static_cast<std::uint64_t>(info.st_size) != item.size) return result;
  const base::UniqueFd file(::openat(parent.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return result;
  if (mtime_of(info) == item.mtime_ns) {
    const bool is_same_mode = (info.st_mode & kPermissions) == (item.mode & kPermissions);
    if (!is_same_mode && ::fchmod(file.get(), item.mode & kPermissions) != 0) return result;
    result.verdict = StageVerdict::kRight;
    return result;
  }
  if (digest_wanted == Digest::kNone) return result;
  const auto digest = base::sha256_of_file(file.get(), stop);
  if (digest.status().code() == Code::kCancelled) return digest.status();
  if (!digest.ok()) return result;
  result.verdict = StageVerdict::kUncertain;
  result.digest = *digest;
  return result;
}

void StageFolder::drop_half() {
  if (half_.valid()) (void)::unlinkat(half_parent_.get(), half_name_.c_str(), 0);
  half_.reset();
  half_parent_.reset();
  half_path_.clear();
}

// Removes abandoned files in the item's folder, once for each folder. Their age is that of the last change of the
// file itself (ctime), because mtime is set to the source's time. If a folder cannot be listed, nothing is removed
// there.
void StageFolder::sweep(int parent, const StageItem& item) {
  const std::size_t slash = item.path.rfind('/');
  if (!swept_.insert(slash == std::string::npos ? "" : item.path.substr(0, slash)).second) return;
  remove_abandoned(parent, kHalfPrefix);
}

void StageFolder::sweep(const StageItem& item) {
  const auto parent = parent_of(item, false);
  if (parent.ok()) sweep(parent->get(), item);
}

void StageFolder::remove_abandoned(int parent, std::string_view prefix) const {
  const int fd = ::openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fd < 0 ? nullptr : ::fdopendir(fd), ::closedir);
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  while (const dirent* const entry = listing == nullptr ? nullptr : ::readdir(listing.get())) {
    const std::string_view name(entry->d_name);
    if (!name.starts_with(prefix) || name.starts_with(half_name_)) continue;
    struct stat info {};
    if (::fstatat(parent, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(info.st_mode)) continue;
    if (now - info.st_ctim.tv_sec >= abandoned_.count()) (void)::unlinkat(parent, entry->d_name, 0);
  }
}

Status StageFolder::begin(const StageItem& item) {
  drop_half();
  MUSTER_ASSIGN_OR_RETURN(half_parent_, parent_of(item, true));
  sweep(half_parent_.get(), item);
  half_.reset(
      ::openat(half_parent_.get(), half_name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!half_.valid()) return failed(errno, "write", item);
  half_path_ = item.path;
  half_size_ = 0;
  return base::ok_status();
}

Status StageFolder::write(const StageItem& item, std::uint64_t offset, std::string_view piece, bool last) {
  if (offset == 0) MUSTER_RETURN_IF_ERROR(begin(item));
  if (!half_.valid() || half_path_ != item.path || offset != half_size_) {
    return base::invalid_argument("a piece of {} does not follow the previous piece", base::printable(item.path));
  }
  const Status written = base::write_all_blocking(half_.get(), piece.data(), piece.size());
  if (!written.ok()) {
    drop_half();
    return written.with_context(fmt::format("write {}/{}", base::printable(directory_), base::printable(item.path)));
  }
  half_size_ += piece.size();
  if (!last) return base::ok_status();
  const Status placed = complete(item, half_parent_.get(), half_, half_name_);
  half_.reset();
  half_parent_.reset();
  half_path_.clear();
  return placed;
}

Status StageFolder::complete(const StageItem& item, int parent, const base::UniqueFd& file,
                             const std::string& name) const {
  Status placed = ::fchmod(file.get(), item.mode & kPermissions) == 0 ? set_time(file.get(), item.mtime_ns)
                                                                      : base::errno_error(errno, "set permissions");
  // Check close(), because a file system on another machine may report a full disk only then. The caller's descriptor
  // stays open, because it may hold a lock until the file has its name.
  const std::string final_name(name_of(item.path));
  if (placed.ok()) {
    const int copy = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0 || ::close(copy) != 0) placed = base::errno_error(errno, "close");
  }
  if (placed.ok() && ::renameat(parent, name.c_str(), parent, final_name.c_str()) != 0) {
    placed = base::errno_error(errno, "rename");
  }
  if (placed.ok()) return placed;
  (void)::unlinkat(parent, name.c_str(), 0);
  return placed.with_context(fmt::format("write {}/{}", base::printable(directory_), base::printable(item.path)));
}

Status StageFolder::keep(const StageItem& item) const {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, parent_of(item, false));
  const std::string name(name_of(item.path));
  const base::UniqueFd file(::openat(parent.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return failed(errno, "inspect", item);
  const bool is_done = set_time(file.get(), item.mtime_ns).ok() && ::fchmod(file.get(), item.mode & kPermissions) == 0;
  // The content is right. A read-only file system keeps its own time, which is fine.
  return is_done || errno == EROFS ? base::ok_status() : failed(errno, "set the time and permissions of", item);
}

}  // namespace muster::agent::stage
