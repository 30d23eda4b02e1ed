// Checks whether the launcher's machine can still be reached while the launcher itself is stopped (Ctrl-Z) and sends
// nothing. The machine's kernel answers the keep-alive of a TCP connection even if no process accepts it.
// Without this check, ranks would stay suspended for ever if their host loses its link during that time.
//
// Thread: the loop thread only. The loop calls `on_lost` at most once for each begin().
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::agent::inline link {

class SuspendedLink {
 public:
  // The link is lost if the machine has not answered for `lease`. `lease` is rounded up to whole seconds, at least 3.
  SuspendedLink(base::Loop& loop, const base::IpAddress& address, std::uint16_t port, std::chrono::milliseconds lease,
                std::function<void(const std::string& why)> on_lost);
  SuspendedLink(const SuspendedLink&) = delete;
  SuspendedLink& operator=(const SuspendedLink&) = delete;

  void begin();
  void end();

 private:
  void connect();
  void connected();
  void readable();
  void connect_later();
  void lost(const std::string& why);

  base::Loop& loop_;
  const base::IpAddress address_;
  const std::uint16_t port_;
  const std::chrono::seconds lease_;
  const std::function<void(const std::string&)> on_lost_;
  base::UniqueFd socket_;
  base::Timer watch_;
  base::Timer deadline_;  // armed while there is no connection
  base::Timer next_;
};

}  // namespace muster::agent::link
