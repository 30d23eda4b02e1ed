// Accepts the TCP connections of a gRPC server and hands each one to gRPC, which does the TLS handshake.
//
// gRPC 1.51 accepts without a bound, and one EMFILE in its own accept makes its listener deaf for ever. This class
// accepts instead:
// - A connection is unproven until authenticated() names its peer, or kUnprovenTime has passed. When `most_unproven`
//   connections are unproven, the oldest one is closed for each new one. Silent strangers thus delay nobody.
// - Without a free descriptor it pauses for a moment. The kernel's backlog holds those who come, and unproven
//   connections that are older than a moment are closed. The pause is reported once a minute.
// The server itself must end handshakes that take longer than kHandshakeTime (GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS).
//
// Threads: made, closed and destroyed on the loop thread; authenticated() may be called from any thread until the
// object is destroyed. Descriptors: each unproven connection holds one more, a duplicate by which it can be closed.
//
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
  // Asked for each connection, on the loop. See unproven_limit().
  std::function<std::size_t()> most_unproven;
  // What the port serves, for messages: "the control port".
  std::string name;
  // For the launcher's log; on the loop. Empty: nothing is reported.
  std::function<void(const std::string& line)> on_line;
};

class FrontDoor {
 public:
  static constexpr std::chrono::seconds kHandshakeTime{10};
  static constexpr base::Duration kUnprovenTime = kHandshakeTime + std::chrono::seconds(2);

  // Takes a connected, non-blocking socket.
  using OnAccepted = std::function<void(base::UniqueFd)>;

  // `listening` is bound, listens, and is non-blocking. Errors: epoll does not take it (no memory).
  static base::Result<std::unique_ptr<FrontDoor>> open(base::Loop& loop, base::UniqueFd listening,
                                                       OnAccepted on_accepted, FrontDoorOptions options);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  // The peer has shown a certificate that the server accepts. `peer` is what gRPC's ServerContext::peer() says.
  void authenticated(std::string_view peer);
  // Accepts nothing any more; connections that were handed on stay.
  void close();

  // Connections that are unproven now. For tests.
  std::size_t unproven() const;

 private:
  struct State;
  explicit FrontDoor(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// An accept() that failed so has no room now: the connection waits in the kernel's backlog.
bool is_out_of_descriptors(int errno_value);

// kHandshakeTime as gRPC's channel argument takes it.
int handshake_milliseconds();

// How many unproven connections a port may have: 1024, or fewer where this process may have few descriptors.
std::size_t unproven_limit();

}  // namespace muster::launcherd::service
