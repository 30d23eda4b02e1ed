#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/env.h"
#include "base/ids.h"
#include "base/unique_fd.h"

namespace muster::base {
namespace {

constexpr int kDirectoryAttempts = 100;

Status check_owner_and_mode(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return errno_error(errno, fmt::format("inspect {}", path));
  if (info.st_uid != ::geteuid()) {
    return base::permission_denied("{} belongs to uid {}, but must belong to uid {}: use another directory", path,
                                   info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 077) != 0) {
    return base::permission_denied(
        "{} has mode {:04o}, which lets other users in: use a directory made with mkdir -m 700, or chmod 700 "
        "this one if no one else needs it",
        path, info.st_mode & 07777);
  }
  return ok_status();
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error(errno, fmt::format("open {}", path));
  std::string content;
  struct stat about {};
  if (::fstat(fd.get(), &about) == 0 &&
      S_ISREG(about.st_mode)) {  // files in /proc have size 0, so read() goes on to their end
    content.reserve(std::min(static_cast<std::size_t>(about.st_size), limit) + 1);
  }
  char buffer[16384];
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, fmt::format("read {}", path));
    }
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > limit) {
      return base::resource_exhausted("{} is larger than {} bytes, the limit for such a file", path, limit);
    }
  }
}

namespace {

Status sync_directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool is_done = fd.valid() && (::fsync(fd.get()) == 0 || errno == EINVAL);  // not every file system supports it
  return is_done ? ok_status() : errno_error(errno, fmt::format("write {} to its disk", directory));
}

Status write_and_rename(const std::string& path, std::string_view content, unsigned mode, bool is_durable) {
  const std::string temporary = fmt::format("{}.{}", path, random_hex(6));
  const UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return errno_error(errno, fmt::format("create {}", temporary));
  Status status = write_all_blocking(fd.get(), content.data(), content.size()).with_context(temporary);
  if (status.ok() && is_durable && ::fsync(fd.get()) != 0) {
    status = errno_error(errno, fmt::format("write {} to its disk", temporary));
  }
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = errno_error(errno, fmt::format("rename {} to {}", temporary, path));
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace

Status write_file_atomically(const std::string& path, std::string_view content, unsigned mode) {
  return write_and_rename(path, content, mode, false);
}

Status write_file_durably(const std::string& path, std::string_view content, unsigned mode) {
  MUSTER_RETURN_IF_ERROR(write_and_rename(path, content, mode, true));
  return sync_directory_of(path);
}

Status make_private_directory(const std::string& path) {
  UniqueFd fd;
  // If another process removes the directory between mkdir() and open(), make it again.
  for (int attempt = 1; !fd.valid(); ++attempt) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno_error(errno, fmt::format("create {}", path));
    fd.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid() && (errno != ENOENT || attempt == kDirectoryAttempts)) {
      return errno_error(errno, fmt::format("open the directory {}", path));
    }
  }
  return check_owner_and_mode(fd.get(), path);
}

Status check_private_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return errno_error(errno, fmt::format("open the directory {}", path));
  return check_owner_and_mode(fd.get(), path);
}

Result<std::string> home_directory() {
  const auto home = env_var("HOME");
  if (!home || home->empty() || home->front() != '/') {
    return base::failed_precondition("HOME is not set to an absolute path");
  }
  return *home;
}

}  // namespace muster::base
