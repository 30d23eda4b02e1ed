#include "agent/link/launcher_route.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "agent/link/dial.h"
#include "base/net.h"

namespace muster::agent::inline link {
namespace {

constexpr std::chrono::milliseconds kPerWay{2'000};

}  // namespace

void LauncherRoute::set_relay(const std::vector<base::IpAddress>& addresses, std::uint16_t port) {
  const std::lock_guard lock(mutex_);
  relays_.clear();
  for (const base::IpAddress& address : addresses) {
    relays_.push_back({.address = address, .port = port, .is_relay = true});
  }
  is_direct_ = relays_.empty();
}

// The way that worked last comes first, then the other kind.
std::vector<LauncherRoute::Way> LauncherRoute::ways(std::uint16_t launcher_port) const {
  const Way direct{.address = launcher_, .port = launcher_port, .is_relay = false};
  const std::lock_guard lock(mutex_);
  std::vector<Way> all = relays_;
  all.insert(is_direct_ ? all.begin() : all.end(), direct);
  return all;
}

LauncherRoute::Way LauncherRoute::way(std::uint16_t launcher_port, int failures) const {
  const std::vector<Way> all = ways(launcher_port);
  return all[static_cast<std::size_t>(failures) % all.size()];
}

void LauncherRoute::succeeded(const Way& way) {
  const std::lock_guard lock(mutex_);
  is_direct_ = !way.is_relay;
  const auto found = std::find(relays_.begin(), relays_.end(), way);
  if (found != relays_.end()) std::rotate(relays_.begin(), found, found + 1);
}

// Without a free descriptor the connection is not followed. It then ends with the relay's own end.
void LauncherRoute::follow(int fd) {
  base::UniqueFd duplicate(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  const std::lock_guard lock(mutex_);
  if (duplicate.valid()) followed_.push_back(std::move(duplicate));
  if (followed_.size() > kMostFollowed) followed_.pop_front();
}

void LauncherRoute::leave_relay() {
  const std::lock_guard lock(mutex_);
  is_direct_ = true;
  for (const base::UniqueFd& fd : std::exchange(followed_, {})) ::shutdown(fd.get(), SHUT_RDWR);
}

base::Result<base::UniqueFd> LauncherRoute::connect_blocking(proto::ViaService service, std::uint16_t launcher_port,
                                                             base::MonotonicTime deadline, int cancel_fd) {
  base::Status last = base::unavailable("no address of the launcher is known");
  const std::vector<Way> all = ways(launcher_port);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Way& way = all[i];
    const bool is_last = i + 1 == all.size();
    const base::MonotonicTime until =
        is_last ? deadline : std::min(deadline, std::chrono::steady_clock::now() + kPerWay);
    auto dialled = dial_first({way.address}, way.port, until, cancel_fd);
    if (!dialled.ok()) {
      last = dialled.status();
      if (last.code() == base::Code::kCancelled) return last;
      continue;
    }
    if (way.is_relay) {
      const std::string hello = proto::via_hello(service);
      last = base::write_all_blocking(dialled->fd.get(), hello.data(), hello.size());  // fits into any socket buffer
      if (!last.ok()) continue;
      follow(dialled->fd.get());
    }
    return std::move(dialled->fd);
  }
  return last;
}

}  // namespace muster::agent::link
