// Trusted folders: checks of owner and mode, and the walk along a path.
// Read check_trusted_folder() first, then Walk, which open_folder_by_trusted_path() uses.
#include "base/trusted_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <deque>
#include <utility>

#include "base/file.h"
#include "base/strings.h"

namespace muster::base {
namespace {

constexpr int kMostLinks = 40;  // the kernel's limit
constexpr int kMakeAttempts = 10;
constexpr mode_t kOthersWrite = 0002;
constexpr mode_t kGroupWrite = 0020;
constexpr mode_t kModeBits = 07777;

// Reads only /etc/passwd, because the agent is static and has no NSS.
std::string owner_name(uid_t owner) {
  const auto accounts = read_file("/etc/passwd");
  const std::string number = std::to_string(owner);
  if (accounts.ok()) {
    for (const std::string_view line : split(*accounts, '\n')) {
      const auto fields = split(line, ':');
      if (fields.size() > 2 && fields[2] == number) return fmt::format("{} (uid {})", printable(fields[0]), number);
    }
  }
  return "uid " + number;
}

bool is_private_group(const struct stat& info) {
  return info.st_uid == ::geteuid() && info.st_gid == ::getegid() && info.st_gid == info.st_uid;
}

// One walk from the root folder, one name at a time.
class Walk {
 public:
  Walk(const std::string& path, FolderWalk rule) : rule_(rule) { add_names(path); }

  Result<UniqueFd> run() {
    MUSTER_RETURN_IF_ERROR(begin_at_root());
    while (!names_.empty()) {
      const std::string name = std::move(names_.front());
      names_.pop_front();
      MUSTER_RETURN_IF_ERROR(step(name));
    }
    UniqueFd folder(::openat(at_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) return errno_error(errno, fmt::format("open the folder {}", printable(shown())));
    return folder;
  }

 private:
  std::string shown() const { return shown_.empty() ? "/" : shown_; }

  void add_names(std::string_view path) {
    std::deque<std::string> more;
    for (const std::string_view name : split(path, '/')) {
      if (!name.empty() && name != ".") more.emplace_back(name);
    }
    names_.insert(names_.begin(), more.begin(), more.end());
  }

  Status begin_at_root() {
    at_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_.valid()) return errno_error(errno, "open the folder /");
    shown_.clear();
    return check_place();
  }

  Status check_place() {
    struct stat info {};
    if (::fstat(at_.get(), &info) != 0) return errno_error(errno, fmt::format("inspect {}", printable(shown())));
    is_for_everyone_ = (info.st_mode & kOthersWrite) != 0;
    if (!rule_.needs_sticky || !is_for_everyone_ || (info.st_mode & S_ISVTX) != 0) return ok_status();
    return base::permission_denied(
        "every user can replace files in {} (mode {:04o}): chmod +t it, or choose another folder", printable(shown()),
        info.st_mode & kModeBits);
  }

  Status check_place_of(const struct stat& info, const std::string& path) const {
    if (!is_for_everyone_ || is_trusted_owner(info.st_uid)) return ok_status();
    return base::permission_denied(
        "{} belongs to {}, and any user could have put it there: choose a folder of your own", printable(path),
        owner_name(info.st_uid));
  }

  Status step(const std::string& name) {
    const std::string path = shown_ + "/" + name;
    UniqueFd next;
    // Another process may make or remove the folder between openat() and mkdirat().
    for (int attempt = 1; !next.valid(); ++attempt) {
      // O_DIRECTORY triggers an autofs mount.
      next.reset(::openat(at_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (next.valid()) break;
      if (errno == ENOTDIR || errno == ELOOP) return follow(name, path);
      if (errno != ENOENT) return errno_error(errno, fmt::format("open the folder {}", printable(path)));
      if ((::mkdirat(at_.get(), name.c_str(), rule_.made_mode) != 0 && errno != EEXIST) || attempt == kMakeAttempts) {
        return errno_error(errno, fmt::format("make the folder {}", printable(path)));
      }
    }
    struct stat info {};
    if (::fstat(next.get(), &info) != 0) return errno_error(errno, fmt::format("inspect {}", printable(path)));
    if (name != "..") MUSTER_RETURN_IF_ERROR(check_place_of(info, path));
    at_ = std::move(next);
    shown_ = name == ".." ? shown_.substr(0, shown_.rfind('/')) : path;
    return check_place();
  }

  Status follow(const std::string& name, const std::string& path) {
    const UniqueFd link(::openat(at_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!link.valid() || ::fstat(link.get(), &info) != 0) {
      return errno_error(errno, fmt::format("inspect {}", printable(path)));
    }
    if (!S_ISLNK(info.st_mode)) {
      return base::failed_precondition("make the folder {}: something else has this name", printable(path));
    }
    MUSTER_RETURN_IF_ERROR(check_place_of(info, path));
    std::string target(PATH_MAX, '\0');
    const ssize_t length = ::readlinkat(link.get(), "", target.data(), target.size());
    if (length <= 0) return errno_error(errno, fmt::format("read the link {}", printable(path)));
    if (++links_ > kMostLinks) return errno_error(ELOOP, fmt::format("follow the link {}", printable(path)));
    target.resize(static_cast<std::size_t>(length));
    add_names(target);
    return target.front() == '/' ? begin_at_root() : ok_status();
  }

  const FolderWalk rule_;
  std::deque<std::string> names_;  // names that remain
  UniqueFd at_;
  std::string shown_;             // the path of at_; empty for the root folder
  bool is_for_everyone_ = false;  // any user may put entries into at_
  int links_ = 0;
};

}  // namespace

bool is_trusted_owner(uid_t owner) {
  return owner == ::geteuid() || owner == 0;
}

Status check_trusted_folder(const struct stat& info, const std::string& shown) {
  const mode_t mode = info.st_mode & kModeBits;
  const std::string_view cure = info.st_uid == ::geteuid() ? "chmod go-w it, or choose" : "choose";
  if (!is_trusted_owner(info.st_uid)) {
    return base::permission_denied("{} belongs to {}, who could put other files there: choose a folder of your own",
                                   printable(shown), owner_name(info.st_uid));
  }
  if ((mode & kOthersWrite) != 0) {
    return base::permission_denied("every user may write into {} (mode {:04o}): {} a folder of your own",
                                   printable(shown), mode, cure);
  }
  if ((mode & kGroupWrite) != 0 && !is_private_group(info)) {
    return base::permission_denied("the members of group {} may write into {} (mode {:04o}): {} a folder of your own",
                                   info.st_gid, printable(shown), mode, cure);
  }
  return ok_status();
}

Status check_folder_of_own_files(const struct stat& info, const std::string& shown) {
  if (is_trusted_owner(info.st_uid) && (info.st_mode & S_ISVTX) != 0) return ok_status();
  return check_trusted_folder(info, shown);
}

Result<UniqueFd> open_folder_by_trusted_path(const std::string& path, FolderWalk walk) {
  if (!path.starts_with('/')) return base::invalid_argument("'{}' is not an absolute path", printable(path));
  return Walk(path, walk).run();
}

}  // namespace muster::base
