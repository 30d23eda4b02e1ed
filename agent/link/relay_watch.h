// Notices that the relay of this agent no longer answers although its connections stay, for example because it is
// stopped. The relay echoes a byte each second.
//
// Owner: Agent.
// Thread: the loop thread only. The loop calls `on_silent` at most once for each begin().
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "agent/link/launcher_route.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/unique_fd.h"

namespace muster::agent::inline link {

class RelayWatch {
 public:
  struct Options {
    base::Duration period = std::chrono::seconds(1);
    base::Duration patience = std::chrono::seconds(3);  // without an echo
  };

  RelayWatch(base::Loop& loop, std::function<void()> on_silent) : RelayWatch(loop, std::move(on_silent), Options()) {}
  RelayWatch(base::Loop& loop, std::function<void()> on_silent, Options options)
      : loop_(loop), on_silent_(std::move(on_silent)), options_(options) {}
  RelayWatch(const RelayWatch&) = delete;
  RelayWatch& operator=(const RelayWatch&) = delete;

  // Call it when the launcher has answered through this relay.
  void begin(const LauncherRoute::Way& relay);
  void end();

 private:
  void connect();
  void tick();
  void readable();

  base::Loop& loop_;
  const std::function<void()> on_silent_;
  const Options options_;
  std::optional<LauncherRoute::Way> relay_;
  base::UniqueFd socket_;
  bool has_said_hello_ = false;
  base::Timer readable_;
  base::Timer ticks_;
  base::MonotonicTime last_echo_{};
};

}  // namespace muster::agent::link
