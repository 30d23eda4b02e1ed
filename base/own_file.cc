#include "base/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace muster::base {

Result<std::string> read_own_file(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid() && errno == ELOOP) {
    return base::permission_denied("{} is a link, but must be a plain file", path);
  }
  struct stat about {};
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0) return errno_error(errno, fmt::format("open {}", path));
  if (!S_ISREG(about.st_mode) || about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return base::permission_denied(
        "{} belongs to uid {} with mode {:o}, but must be a plain file of this user that no other user can "
        "read: chmod 600 it",
        path, about.st_uid, about.st_mode & 07777);
  }
  std::string content(limit + 1, '\0');
  std::size_t got = 0;
  while (got < content.size()) {
    const ssize_t count = ::read(fd.get(), content.data() + got, content.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(errno, fmt::format("read {}", path));
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  if (got > limit) {
    return base::resource_exhausted("{} is larger than {} bytes, the limit for such a file", path, limit);
  }
  content.resize(got);
  return content;
}

}  // namespace muster::base
