// FrontDoor accepts the TCP connections of a gRPC server. It hands each one to gRPC, which does the TLS handshake.
//
// gRPC 1.51 accepts without a limit, and one EMFILE in its own accept makes its listener deaf for ever. So this class
// accepts instead:
// - A connection is unproven until authenticated() names its peer, or kUnprovenTime has passed. Once `most_unproven`
//   connections are unproven, each new one closes the oldest one. So silent peers delay no other peer.
// - If no descriptor is free, the class pauses for 100 ms (kDoorPause). During the pause the kernel's backlog holds new
//   connections. Unproven connections older than 2 s (kYoung) are closed. The pause is reported once a minute.
// The server itself must end handshakes that take longer than kHandshakeTime, by GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS.
//
// Thread: created, closed and destroyed on the loop thread. Any thread may call authenticated() until the object is
// destroyed.
// Cost: each unproven connection uses one more descriptor, a duplicate that can close it.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(auto door, FrontDoor::open(loop, std::move(listening), hand_to_grpc, options));
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline service {

struct FrontDoorOptions {
  // Returns the limit on unproven connections. Called on the loop for each connection. See unproven_limit().
  std::function<std::size_t()> most_unproven;
  // Name of the port for messages: "the control port".
  std::string name;
  // Receives lines for the launcher's log, on the loop. If empty, nothing is reported.
  std::function<void(const std::string& line)> on_line;
};

class FrontDoor {
 public:
  static constexpr std::chrono::seconds kHandshakeTime{10};
  static constexpr base::Duration kUnprovenTime = kHandshakeTime + std::chrono::seconds(2);

  // Receives a connected, non-blocking socket.
  using OnAccepted = std::function<void(base::UniqueFd)>;

  // `listening` must be bound, listening and non-blocking. Fails if epoll has no memory for it.
  static base::Result<std::unique_ptr<FrontDoor>> open(base::Loop& loop, base::UniqueFd listening,
                                                       OnAccepted on_accepted, FrontDoorOptions options);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  // Reports that the peer has shown a valid certificate. `peer` is ServerContext::peer() of gRPC.
  void authenticated(std::string_view peer);
  // Stops accepting. Connections that were handed to gRPC stay.
  void close();

  // Returns the number of unproven connections. For tests.
  std::size_t unproven() const;

 private:
  struct State;
  explicit FrontDoor(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// True if accept() failed for lack of descriptors. The connection then waits in the kernel's backlog.
bool is_out_of_descriptors(int errno_value);

// Returns kHandshakeTime as gRPC's channel argument expects it.
int handshake_milliseconds();

// Returns how many unproven connections a port may have: 1024, or fewer if the process may open few descriptors.
std::size_t unproven_limit();

}  // namespace muster::launcherd::service
