#include "agent/pmix/helper/doorbell.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "base/net.h"

namespace muster::agent::pmix {
namespace {

// The sockets for accept(). They are global, because accept() has no argument by which it could find an object of
// ours.
struct Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<base::UniqueFd> waiting;
  std::uint64_t rings = 0;
};

Queue& queue() {
  static Queue one;
  return one;
}

int accept_next() {
  Queue& all = queue();
  const std::lock_guard lock(all.mutex);
  ++all.rings;
  all.changed.notify_all();
  if (all.waiting.empty()) {
    errno = EAGAIN;
    return -1;
  }
  const int fd = all.waiting.front().release();
  all.waiting.pop_front();
  return fd;
}

base::Status ring(std::uint16_t port) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress loopback, base::IpAddress::parse("127.0.0.1"));
  const base::SockAddr address = base::make_sockaddr(loopback, port);
  const base::UniqueFd bell(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!bell.valid()) return base::errno_error(errno, "open a socket for libpmix");
  while (::connect(bell.get(), address.get(), address.size) != 0) {
    if (errno == EISCONN) break;
    if (errno != EINTR) return base::errno_error(errno, "connect to libpmix");
  }
  return base::ok_status();
}

}  // namespace

base::Status check_doorbell(std::uint16_t port, std::chrono::milliseconds patience) {
  Queue& all = queue();
  std::unique_lock lock(all.mutex);
  const std::uint64_t before = all.rings;
  lock.unlock();
  MUSTER_RETURN_IF_ERROR(ring(port));
  lock.lock();
  if (all.changed.wait_for(lock, patience, [&] { return all.rings != before; })) return base::ok_status();
  return base::unimplemented("it does not accept connections in a way that Muster knows");
}

base::Status hand_over(base::UniqueFd rank, std::uint16_t port) {
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(rank.get(), false));  // libpmix expects blocking sockets from accept()
  Queue& all = queue();
  {
    const std::lock_guard lock(all.mutex);
    all.waiting.push_back(std::move(rank));
  }
  return ring(port);
}

namespace {

int accept_next(int listening, int flags) {
  // Call the kernel, because the C library's accept4() has the name of our own function.
  const long bell = ::syscall(SYS_accept4, listening, nullptr, nullptr, flags | SOCK_CLOEXEC);
  if (bell < 0) return -1;
  ::close(static_cast<int>(bell));
  return accept_next();
}

}  // namespace
}  // namespace muster::agent::pmix

extern "C" int accept(int listening, sockaddr* peer, socklen_t* size) {
  if (peer != nullptr && size != nullptr) *size = 0;
  return muster::agent::pmix::accept_next(listening, 0);
}

extern "C" int accept4(int listening, sockaddr* peer, socklen_t* size, int flags) {
  if (peer != nullptr && size != nullptr) *size = 0;
  return muster::agent::pmix::accept_next(listening, flags);
}
