// Makes this agent a relay: agents of other hosts (children) connect to its port, and it carries their encrypted
// connections to the launcher as streams of one connection for each service (proto/relay_frame.h). It reads nothing of
// them.
//
// Owner: Agent.
// Thread: it runs a thread of its own. Any thread may call the methods; the destructor waits for the thread.
// Faults: if the connection to the launcher ends, its children's connections are closed, and the children look for
// another way. New children wait kHold for a new connection to the launcher, so that they come back together after a
// restart of launcherd.
// Limits: bytes of a child wait in at most kRelayWindow for each direction. Of children that the launcher has not
// proved yet at most kMostUnproven stay, each at most kProveTime. If no descriptor is free, accepting pauses for 100
// ms.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"

namespace muster::agent::inline relay {

struct RelayServerOptions {
  base::IpAddress launcher;
  std::uint16_t control_port = 0;  // of the launcher
  std::uint16_t output_port = 0;
};

class RelayServer {
 public:
  static constexpr std::chrono::seconds kHold{2};
  static constexpr std::chrono::seconds kProveTime{15};
  static constexpr std::size_t kMostUnproven = 1024;

  // Listens on any free port.
  static base::Result<std::unique_ptr<RelayServer>> start(RelayServerOptions options);
  ~RelayServer();
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  int port() const;
  // Returns how many children are connected.
  std::size_t children() const;
  // Accepts no more children, and returns when none is left, or at the deadline.
  void drain_blocking(base::MonotonicTime deadline);

 private:
  class Worker;
  explicit RelayServer(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::agent::relay
