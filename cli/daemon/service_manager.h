// launcherd under systemd: it reports its state (sd_notify(3)), and takes the socket that systemd has opened
// (sd_listen_fds(3)). Without systemd both do nothing.
// Thread: any, one at a time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline daemon {

class ServiceManager {
 public:
  // Reads NOTIFY_SOCKET: the path of a Unix socket, or '@' and an abstract name.
  explicit ServiceManager(const base::Environment& environment);

  // `status` is one line for `systemctl status`. Errors: the socket does not exist or does not take the message.
  base::Status ready(const std::string& status) const;
  // Files are being read again; ready() follows. `now` is CLOCK_MONOTONIC.
  base::Status reloading(std::chrono::microseconds now) const;
  base::Status stopping() const;

 private:
  base::Status send(const std::string& message) const;

  std::string socket_;  // empty without systemd
};

// Returns the socket of LISTEN_FDS, if systemd has opened one for the process `pid`, closed on exec. Errors: it has
// opened several. The caller owns the socket, so call this once.
base::Result<std::optional<base::UniqueFd>> inherited_socket(const base::Environment& environment, pid_t pid);

}  // namespace muster::cli::daemon
