#include "collectives/join/agent_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/net.h"

namespace muster::collectives::inline join {

base::Result<base::UniqueFd> connect_to_agent(const std::string& directory) {
  const std::string shown = directory + "/agent.sock";
  const base::UniqueFd in(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat about {};
  if (!in.valid() || ::fstat(in.get(), &about) != 0) {
    return base::errno_error(errno, fmt::format("open the session directory {}", directory));
  }
  if (about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return base::permission_denied(
        "the session directory {} belongs to uid {} with mode {:o}, but must belong to this user with mode 0700: is "
        "MUSTER_SESSION_DIR that of this job?",
        directory, about.st_uid, about.st_mode & 07777);
  }
  auto address = base::unix_address(shown);
  // The path is too long for a Unix socket's address, so go through the directory's descriptor.
  if (!address) address = base::unix_address(fmt::format("/proc/self/fd/{}/agent.sock", in.get()));
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  MUSTER_CHECK(address.has_value());
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return base::errno_error(errno, fmt::format("connect to the agent at {}", shown));
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return base::errno_error(errno, fmt::format("query the process that listens at {}", shown));
  }
  if (peer.uid != ::geteuid()) {
    return base::permission_denied("{1}: the listening process belongs to uid {0}, not to this user", peer.uid, shown);
  }
  return fd;
}

}  // namespace muster::collectives::join
