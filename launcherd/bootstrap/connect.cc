// resolve_host() and connect_host(). Lookup resolves a name on its own thread; Attempt is one connection attempt.
// Read connect_host at the end first, then resolve_host, then begin and collect.
#include "launcherd/bootstrap/connect.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/thread.h"

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr auto kNextAddressAfter = std::chrono::milliseconds(250);

struct Lookup {
  std::string name;
  CancelSource done;  // readable when the look-up has finished
  std::mutex mutex;
  int error = EAI_AGAIN;                   // guarded by mutex
  std::vector<base::IpAddress> addresses;  // guarded by mutex

  void run() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int rc = ::getaddrinfo(name.c_str(), nullptr, &hints, &list);
    {
      const std::lock_guard lock(mutex);
      error = rc;
      for (const addrinfo* info = list; rc == 0 && info != nullptr; info = info->ai_next) {
        auto address = base::IpAddress::from_sockaddr(info->ai_addr);
        if (address.ok() && std::find(addresses.begin(), addresses.end(), *address) == addresses.end()) {
          addresses.push_back(*std::move(address));
        }
      }
    }
    if (rc == 0) ::freeaddrinfo(list);
    done.cancel();
  }
};

struct Attempt {
  base::IpAddress address;
  base::UniqueFd socket;
};

std::string describe(const base::IpAddress& address, int port) {
  return fmt::format("{} port {}", address.str(), port);
}

Failure errno_failure(int errno_value, const base::IpAddress& address, int port) {
  return {.kind = classify_errno(errno_value),
          .address = describe(address, port),
          .detail = std::generic_category().message(errno_value)};
}

// Starts a connection attempt, or returns why it could not start.
Failure begin(const base::IpAddress& address, int port, std::vector<Attempt>& attempts) {
  const base::SockAddr to = base::make_sockaddr(address, static_cast<std::uint16_t>(port));
  base::UniqueFd socket(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno_failure(errno, address, port);
  if (::connect(socket.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    return errno_failure(errno, address, port);
  }
  attempts.push_back({address, std::move(socket)});
  return {};
}

// Removes failed attempts. Returns the connected socket, or an invalid one if no attempt has connected yet.
base::UniqueFd collect(std::vector<Attempt>& attempts, int port, Failure& last) {
  for (auto it = attempts.begin(); it != attempts.end();) {
    pollfd fd{it->socket.get(), POLLOUT, 0};
    if (::poll(&fd, 1, 0) <= 0) {
      ++it;
      continue;
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    if (::getsockopt(it->socket.get(), SOL_SOCKET, SO_ERROR, &failed, &size) != 0) failed = errno;
    if (failed == 0) return std::move(it->socket);
    last = errno_failure(failed, it->address, port);
    it = attempts.erase(it);
  }
  return {};
}

}  // namespace

Failure resolve_host(const std::string& name, const Waiter& waiter, std::vector<base::IpAddress>& addresses) {
  if (auto literal = base::IpAddress::parse(name); literal.ok()) {
    addresses.push_back(*std::move(literal));
    return {};
  }
  const auto lookup = std::make_shared<Lookup>();
  lookup->name = name;
  if (const base::Status there = lookup->done.status(); !there.ok()) {
    return {.kind = FailureKind::kSshFailed, .detail = there.message()};
  }
  auto thread = base::start_thread([lookup] { lookup->run(); });
  if (!thread.ok()) return {.kind = FailureKind::kSshFailed, .detail = thread.status().message()};
  thread->detach();  // getaddrinfo cannot be interrupted
  const pollfd done{lookup->done.fd(), POLLIN, 0};
  if (Failure failure = wait_failure(waiter.wait({&done, 1})); !failure.ok()) {
    if (failure.kind == FailureKind::kTimeout) failure.detail = "while its name was looked up";
    return failure;
  }
  const std::lock_guard lock(lookup->mutex);
  if (lookup->error != 0) return {.kind = FailureKind::kNameNotFound, .detail = ::gai_strerror(lookup->error)};
  addresses = lookup->addresses;
  return addresses.empty() ? Failure{.kind = FailureKind::kNameNotFound, .detail = "the name has no address"}
                           : Failure{};
}

Failure connect_host(const std::string& name, int port, const Waiter& waiter, base::UniqueFd& socket) {
  std::vector<base::IpAddress> addresses;
  if (Failure failure = resolve_host(name, waiter, addresses); !failure.ok()) return failure;
  std::vector<Attempt> attempts;
  Failure last;
  std::size_t next = 0;
  auto next_at = std::chrono::steady_clock::now();
  while (next < addresses.size() || !attempts.empty()) {
    const auto now = std::chrono::steady_clock::now();
    if (next < addresses.size() && (attempts.empty() || now >= next_at)) {
      if (Failure failure = begin(addresses[next], port, attempts); !failure.ok()) last = failure;
      ++next;
      next_at = now + kNextAddressAfter;
      continue;
    }
    std::vector<pollfd> fds;
    for (const Attempt& attempt : attempts) fds.push_back({attempt.socket.get(), POLLOUT, 0});
    const auto not_after = next < addresses.size() ? next_at : base::MonotonicTime::max();
    if (Failure failure = wait_failure(waiter.wait(fds, not_after)); !failure.ok()) {
      failure.address = describe(addresses.front(), port);
      if (failure.kind == FailureKind::kTimeout) failure.detail = "no connection";
      return failure;
    }
    socket = collect(attempts, port, last);
    if (socket.valid()) return {};
  }
  return last;
}

}  // namespace muster::launcherd::bootstrap
