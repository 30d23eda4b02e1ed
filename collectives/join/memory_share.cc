// Hands out files of shared memory over an abstract Unix socket.
// Read the owner's MemoryShare::turn(), accept_new() and serve() first, then the requester's request_memory().
#include "collectives/join/memory_share.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "collectives/join/poll_until.h"
#include "collectives/join/service.h"

namespace muster::collectives::inline join {
namespace {

constexpr int kMemoryBacklog = 1024;
constexpr std::size_t kMaxRequesters = 2048;
constexpr std::chrono::milliseconds kPause{100};  // pause after file descriptors have run out
constexpr std::string_view kMemoryGone = "the rank that shares the memory has ended";
constexpr std::chrono::milliseconds kOverStep{100};  // time between two calls of `is_over`

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t size = 0;
};

base::Result<AbstractAddress> abstract_address(const std::string& name) {
  AbstractAddress made;
  if (name.empty() || name.size() + 1 > sizeof made.address.sun_path) {
    return base::invalid_argument("'{}' is not a valid name of an abstract Unix socket", name);
  }
  made.address.sun_family = AF_UNIX;
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

bool is_our_uid(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// A message of one byte, with room for one file descriptor.
struct FdMessage {
  FdMessage() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  FdMessage(const FdMessage&) = delete;
  FdMessage& operator=(const FdMessage&) = delete;

  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
};

base::Status send_fd(int socket, int fd) {
  FdMessage sent;
  cmsghdr* const header = CMSG_FIRSTHDR(&sent.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(socket, &sent.message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    return base::errno_error(errno, "sending shared memory");
  }
  return base::ok_status();
}

base::Result<base::UniqueFd> receive_fd(int socket) {
  FdMessage received;
  const ssize_t got = recvmsg(socket, &received.message, MSG_CMSG_CLOEXEC);
  if (got < 0 && errno != ECONNRESET) return base::errno_error(errno, "receiving shared memory");
  if (got > 0 && (received.message.msg_flags & MSG_CTRUNC) != 0) {
    return base::resource_exhausted("receiving shared memory: no file descriptor is free (ulimit -n)");
  }
  const cmsghdr* const header = CMSG_FIRSTHDR(&received.message);
  if (got <= 0 || header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return base::unavailable("{}", kMemoryGone);
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return base::UniqueFd(fd);
}

}  // namespace

base::Result<MemoryShare> MemoryShare::open() {
  MemoryShare share;
  share.unix_name_ = "muster-" + base::random_hex(16);
  MUSTER_ASSIGN_OR_RETURN(const AbstractAddress at, abstract_address(share.unix_name_));
  share.listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!share.listener_.valid()) return base::errno_error(errno, "create a Unix socket for shared memory");
  if (bind(share.listener_.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0 ||
      listen(share.listener_.get(), kMemoryBacklog) != 0) {
    return base::errno_error(errno, "listen at a Unix socket for shared memory");
  }
  return share;
}

base::Status MemoryShare::add(const std::string& name, int fd) {
  if (name.size() >= kMemoryName) {
    return base::invalid_argument("'{}' is too long for a name of shared memory", name);
  }
  base::UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return base::errno_error(errno, "duplicate the descriptor of shared memory");
  shared_[name] = std::move(copy);
  return base::ok_status();
}

void MemoryShare::remove(const std::string& name) {
  shared_.erase(name);
}

void MemoryShare::add_to(std::vector<pollfd>& fds) const {
  const bool accepts = requesters_.size() < kMaxRequesters && base::monotonic_now() >= pauses_until_;
  fds.push_back({listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0});
  for (const Requester& requester : requesters_) {
    // Once a requester has sent its name and waits, poll it only for its end.
    const bool is_whole = requester.got == kMemoryName;
    fds.push_back({requester.socket.get(), static_cast<short>(is_whole ? 0 : POLLIN), 0});
  }
}

void MemoryShare::turn() {
  accept_new();
  std::erase_if(requesters_, [this](Requester& requester) { return !serve(requester); });
}

void MemoryShare::accept_new() {
  while (requesters_.size() < kMaxRequesters && base::monotonic_now() >= pauses_until_) {
    base::UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      // Pause, because the listener stays readable while descriptors are missing.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pauses_until_ = base::monotonic_now() + kPause;
      return;
    }
    if (is_our_uid(socket.get())) requesters_.push_back({std::move(socket), {}, 0});
  }
}

bool MemoryShare::serve(Requester& requester) {
  while (requester.got < kMemoryName) {
    const ssize_t got =
        recv(requester.socket.get(), requester.name.data() + requester.got, kMemoryName - requester.got, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    requester.got += static_cast<std::size_t>(got);
  }
  const auto found = shared_.find(std::string(requester.name.data(), strnlen(requester.name.data(), kMemoryName)));
  if (found != shared_.end()) {
    // A requester that does not take the descriptor will ask again or fail. Either way it has been served.
    return !send_fd(requester.socket.get(), found->second.get()).ok() && errno == EAGAIN;
  }
  char nothing = 0;
  const ssize_t got = recv(requester.socket.get(), &nothing, 1, MSG_PEEK);
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

base::Result<base::UniqueFd> request_memory(const std::string& unix_name, const std::string& name,
                                            std::chrono::milliseconds deadline, const std::function<bool()>& is_over) {
  MUSTER_ASSIGN_OR_RETURN(const AbstractAddress at, abstract_address(unix_name));
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return base::errno_error(errno, "create a Unix socket for shared memory");
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size) != 0) {
    const int problem = errno;
    if (problem == ECONNREFUSED) return base::unavailable("{}", kMemoryGone);
    return base::errno_error(problem, "request shared memory from the first rank of this host");
  }
  if (!is_our_uid(socket.get())) {
    return base::permission_denied("the process that offers shared memory belongs to another user");
  }
  std::array<char, kMemoryName> asked{};
  std::memcpy(asked.data(), name.data(), std::min(name.size(), kMemoryName - 1));
  const base::Status sent = base::write_all_blocking(socket.get(), asked.data(), asked.size());
  if (!sent.ok()) return base::unavailable("{} ({})", kMemoryGone, sent.message());
  const base::MonotonicTime end = end_of(deadline);
  while (!poll_until(socket.get(), POLLIN, std::min(end, base::monotonic_now() + kOverStep))) {
    if (is_over && is_over()) return base::unavailable("the shared memory is no longer needed");
    if (base::monotonic_now() < end) continue;
    return base::deadline_exceeded("the first rank of this host did not share memory for '{}' within {} ms", name,
                                   deadline.count());
  }
  return receive_fd(socket.get());
}

}  // namespace muster::collectives::join
