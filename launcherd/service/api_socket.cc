// Launchers' Unix sockets: ApiSocket opens them; find_launchers, find_daemon and connect_launcher are for clients.
// Read ApiSocket::open first, then listen_at, then the clients' functions.
#include "launcherd/service/api_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/net.h"

namespace muster::launcherd::inline service {
namespace {

constexpr int kAttempts = 10;
constexpr int kBacklog = 128;
constexpr std::string_view kPrefix = "job-";
constexpr std::string_view kSuffix = ".sock";
constexpr std::string_view kNotYet = ".new";
constexpr std::string_view kDaemonName = "launcherd.sock";

void remove_if_empty(const std::string& directory) {
  ::rmdir(directory.c_str());  // fails while another job uses the directory, as intended
}

// Renames the socket to `path` only once it listens. A socket that does not listen looks like the socket of a killed
// launcher. ALREADY_EXISTS: the name is used.
base::Result<base::UniqueFd> listen_at(const std::string& path) {
  const std::string not_yet = fmt::format("{}.{}{}", path, ::getpid(), kNotYet);
  const auto address = base::unix_address(not_yet);
  if (!address) return base::invalid_argument("{} is too long for a socket's name", path);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return base::errno_error(errno, "open a Unix socket");
  ::unlink(not_yet.c_str());  // a killed process with our pid may have left it
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return base::errno_error(errno, fmt::format("listen at {}", path));
  }
  base::Status failed;
  if (::listen(fd.get(), kBacklog) != 0 || ::link(not_yet.c_str(), path.c_str()) != 0) {
    failed = base::errno_error(errno, fmt::format("listen at {}", path));
  }
  ::unlink(not_yet.c_str());
  if (!failed.ok()) return failed;
  return fd;
}

bool is_socket(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

bool is_private_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077) == 0;
}

}  // namespace

std::vector<std::string> api_directories(const base::Environment& environment) {
  std::vector<std::string> directories;
  if (const auto runtime = environment.get("XDG_RUNTIME_DIR"); runtime && runtime->starts_with('/')) {
    directories.push_back(fmt::format("{}/muster", *runtime));
  }
  const auto own = environment.get("MUSTER_TMPDIR");
  directories.push_back(fmt::format("{}/muster-{}", own && !own->empty() ? *own : "/tmp", ::geteuid()));
  return directories;
}

base::Result<ApiSocket> ApiSocket::open(const std::vector<std::string>& directories, const std::string& job_id) {
  base::Status failed;
  for (const std::string& directory : directories) {
    const std::string path = fmt::format("{}/{}{}{}", directory, kPrefix, job_id, kSuffix);
    // The last foreground job to end may remove the directory before the socket is in it, so try again.
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      failed = base::make_private_directory(directory);
      if (!failed.ok()) break;
      auto fd = listen_at(path);
      if (fd.ok()) return ApiSocket(path, std::move(*fd));
      failed = fd.status();
      if (failed.code() != base::Code::kNotFound) break;
    }
  }
  return failed;
}

base::Result<ApiSocket> ApiSocket::open_for_daemon(const std::vector<std::string>& directories) {
  base::Status failed;
  for (const std::string& directory : directories) {
    auto socket = open_at(fmt::format("{}/{}", directory, kDaemonName));
    if (socket.ok() || socket.status().code() == base::Code::kAlreadyExists) return socket;
    failed = socket.status();
  }
  return failed;
}

base::Result<ApiSocket> ApiSocket::open_at(const std::string& path) {
  if (!path.starts_with('/')) return base::invalid_argument("{} is not an absolute path", path);
  base::Status failed;
  // The last foreground job to end may remove the directory before the socket is in it, so try again.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    MUSTER_RETURN_IF_ERROR(base::make_private_directory(path.substr(0, path.rfind('/'))));
    auto fd = listen_at(path);
    if (fd.ok()) return ApiSocket(path, std::move(*fd));
    failed = fd.status();
    if (failed.code() == base::Code::kNotFound) continue;
    if (failed.code() != base::Code::kAlreadyExists) return failed;
    if (!base::is_abandoned_socket(path)) {
      if (!is_socket(path))
        return base::already_exists("{} is no socket: name another path by --listen unix:PATH", path);
      return base::already_exists(
          "another launcherd listens at {}: end it, or name another socket by --listen unix:PATH", path);
    }
    ::unlink(path.c_str());
  }
  return failed;
}

base::Result<SocketUse> ApiSocket::look(const std::string& path) {
  if (!base::unix_address(fmt::format("{}.{}{}", path, ::getpid(), kNotYet))) {
    return base::invalid_argument("{} is too long for a socket's name", path);
  }
  const base::Status folder = base::check_private_directory(path.substr(0, path.rfind('/')));
  if (folder.code() == base::Code::kNotFound) return SocketUse::kFree;
  MUSTER_RETURN_IF_ERROR(folder);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return SocketUse::kFree;
    return base::errno_error(errno, fmt::format("inspect {}", path));
  }
  if (!is_socket(path)) return base::already_exists("{} is no socket: name another path by --listen unix:PATH", path);
  return base::is_abandoned_socket(path) ? SocketUse::kFree : SocketUse::kInUse;
}

base::Result<ApiSocket> ApiSocket::adopt(base::UniqueFd fd) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  int listens = 0;
  socklen_t flag = sizeof listens;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag) != 0 || address.sun_family != AF_UNIX ||
      listens == 0) {
    return base::invalid_argument("descriptor {} is no listening Unix socket", fd.get());
  }
  const auto longest = std::min<std::size_t>(size, sizeof address) - offsetof(sockaddr_un, sun_path);
  const std::string path(address.sun_path, ::strnlen(address.sun_path, longest));
  if (!path.starts_with('/')) return base::invalid_argument("the inherited Unix socket has no file");
  const std::string directory = path.substr(0, path.rfind('/'));
  if (!is_private_directory(directory)) {
    return base::invalid_argument("the inherited socket is in {}, which must be ours with mode 0700", directory);
  }
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return base::errno_error(errno, fmt::format("listen at {}", path));
  ApiSocket socket(path, std::move(fd));
  socket.is_adopted_ = true;
  return socket;
}

ApiSocket::ApiSocket(ApiSocket&& other) noexcept
    : path_(std::exchange(other.path_, std::string())), fd_(std::move(other.fd_)), is_adopted_(other.is_adopted_) {}

ApiSocket::~ApiSocket() {
  if (path_.empty() || is_adopted_) return;
  ::unlink(path_.c_str());
  remove_if_empty(path_.substr(0, path_.rfind('/')));
}

std::vector<FoundLauncher> find_launchers(const std::vector<std::string>& directories) {
  std::vector<FoundLauncher> found;
  for (const std::string& path : directories) {
    if (!is_private_directory(path)) continue;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (directory == nullptr) continue;
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string_view name = entry->d_name;
      if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
      FoundLauncher launcher;
      launcher.job_id = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
      launcher.path = fmt::format("{}/{}", path, name);
      if (base::is_abandoned_socket(launcher.path)) {
        ::unlink(launcher.path.c_str());
      } else {
        found.push_back(std::move(launcher));
      }
    }
    remove_if_empty(path);
  }
  std::ranges::sort(found, {}, &FoundLauncher::job_id);
  return found;
}

std::optional<std::string> find_daemon(const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const std::string path = fmt::format("{}/{}", directory, kDaemonSocket);
    if (!is_private_directory(directory) || ::access(path.c_str(), F_OK) != 0) continue;
    if (!base::is_abandoned_socket(path)) return path;
  }
  return std::nullopt;
}

base::Result<base::UniqueFd> connect_launcher(const std::string& path, std::chrono::milliseconds patience) {
  const auto address = base::unix_address(path);
  if (!address) return base::invalid_argument("{} is too long for a socket's name", path);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return base::errno_error(errno, "open a Unix socket");
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timeval time{.tv_sec = seconds.count(), .tv_usec = std::chrono::microseconds(patience - seconds).count()};
  // A blocking connect() of a Unix socket waits while the queue is full. A non-blocking one would fail, and not with
  // EINPROGRESS.
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) != 0) {
    return base::errno_error(errno, "limit the time of a connection");
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0) return fd;
  if (errno == ENOENT || errno == ECONNREFUSED) return base::unavailable("the job has ended in the meantime");
  if (errno == EAGAIN) return base::deadline_exceeded("its hvdrun did not answer in time: is it suspended (Ctrl-Z)?");
  return base::errno_error(errno, fmt::format("connect to {}", path));
}

bool is_own_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace muster::launcherd::service
