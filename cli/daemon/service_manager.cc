#include "cli/daemon/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/strings.h"

namespace muster::cli::inline daemon {
namespace {

constexpr int kFirstInherited = 3;  // SD_LISTEN_FDS_START

}  // namespace

ServiceManager::ServiceManager(const base::Environment& environment)
    : socket_(environment.get("NOTIFY_SOCKET").value_or("")) {}

base::Status ServiceManager::ready(const std::string& status) const {
  std::string line = status;
  std::ranges::replace(line, '\n', ' ');
  return send("READY=1\nSTATUS=" + line);
}

base::Status ServiceManager::reloading(std::chrono::microseconds now) const {
  return send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", now.count()));
}

base::Status ServiceManager::stopping() const {
  return send("STOPPING=1");
}

base::Status ServiceManager::send(const std::string& message) const {
  if (socket_.empty()) return base::ok_status();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((socket_.front() != '/' && socket_.front() != '@') || socket_.size() >= sizeof address.sun_path) {
    return base::invalid_argument("NOTIFY_SOCKET is no name of a socket: '{}'", base::printable(socket_));
  }
  std::ranges::copy(socket_, address.sun_path);
  if (socket_.front() == '@') address.sun_path[0] = '\0';
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return base::errno_error(errno, "open a socket to the service manager");
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const ssize_t sent = ::sendto(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                reinterpret_cast<const sockaddr*>(&address), size);
  if (sent < 0) return base::errno_error(errno, fmt::format("send to the service manager at {}", socket_));
  return base::ok_status();
}

base::Result<std::optional<base::UniqueFd>> inherited_socket(const base::Environment& environment, pid_t pid) {
  const auto number = [](std::optional<std::string_view> text) -> std::optional<long> {
    if (!text) return std::nullopt;
    return base::parse_decimal(*text, INT32_MAX);
  };
  const auto owner = number(environment.get("LISTEN_PID"));
  const auto count = number(environment.get("LISTEN_FDS"));
  if (!owner || *owner != pid || !count || *count == 0) return std::optional<base::UniqueFd>();
  if (*count > 1) {
    return base::invalid_argument("the service manager passes {} sockets; launcherd takes one: ListenStream=PATH",
                                  *count);
  }
  if (::fcntl(kFirstInherited, F_SETFD, FD_CLOEXEC) != 0) {
    return base::errno_error(errno, "take the socket of the service manager");
  }
  return std::optional<base::UniqueFd>(base::UniqueFd(kFirstInherited));
}

}  // namespace muster::cli::daemon
