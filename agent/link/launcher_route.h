// The ways by which this agent reaches its launcher: through a relay (proto/relay_frame.h) if it has one, or directly.
//
// Thread: any. Connections of all services go the way that last led to the launcher.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::agent::inline link {

class LauncherRoute {
 public:
  struct Way {
    base::IpAddress address;
    std::uint16_t port = 0;
    bool is_relay = false;
    bool operator==(const Way&) const = default;
  };

  // `launcher`: the launcher's address.
  explicit LauncherRoute(const base::IpAddress& launcher) : launcher_(launcher) {}

  // Prefers a relay at these addresses from now on; none if `addresses` is empty.
  void set_relay(const std::vector<base::IpAddress>& addresses, std::uint16_t port);
  // Returns the way for the next attempt. `launcher_port`: the launcher's port of the service. `failures`: attempts in
  // a row that have failed.
  Way way(std::uint16_t launcher_port, int failures) const;
  // This way has led to the launcher.
  void succeeded(const Way& way);
  // The relay does not answer: prefers the direct way, and ends the connections that connect_blocking() has made
  // through the relay.
  void leave_relay();
  const base::IpAddress& launcher() const { return launcher_; }

  // Connects to the service, and tries the ways one after the other until the deadline.
  base::Result<base::UniqueFd> connect_blocking(proto::ViaService service, std::uint16_t launcher_port,
                                                base::MonotonicTime deadline, int cancel_fd);

 private:
  static constexpr std::size_t kMostFollowed = 64;

  void follow(int fd);
  std::vector<Way> ways(std::uint16_t launcher_port) const;

  const base::IpAddress launcher_;
  mutable std::mutex mutex_;             // guards the next members
  std::vector<Way> relays_;              // the relay by each of its addresses, the best first
  bool is_direct_ = true;                // the launcher was last reached directly
  std::deque<base::UniqueFd> followed_;  // duplicates of connections through the relay, the newest last
};

}  // namespace muster::agent::link
