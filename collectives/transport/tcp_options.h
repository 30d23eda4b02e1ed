// What sockets between ranks are set to (measured in specs: on a virtual network BBR moves a quarter of what cubic or
// reno move, and small buffers cost as much again).
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace muster::collectives::inline transport {

struct TcpOptions {
  // Name of a congestion control; "": the system's default, but cubic or reno instead of bbr.
  std::string congestion;
  int send_buffer = 4 << 20;  // bytes; the kernel cuts them to net.core.wmem_max
  // 0: the kernel's own tuning, which may go far beyond net.core.rmem_max.
  int receive_buffer = 0;
  // Of a peer whose host no longer answers, as the last resort.
  std::chrono::milliseconds silence{30'000};

  // MUSTER_CONGESTION.
  static TcpOptions from_environment();
};

// For listeners (their connections inherit it), sockets before connect() and connected ones. INVALID_ARGUMENT: this
// host does not have the congestion control that was asked for, or does not let this user take it.
base::Status apply(const TcpOptions& options, int socket);

// "cubic"; "unknown" where the kernel does not say.
std::string congestion_of(int socket);

}  // namespace muster::collectives::transport
