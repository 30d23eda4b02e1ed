// Options of sockets between ranks. In our measurements on a virtual network, BBR moved a quarter of what cubic or reno
// moved. Buffers that were too small cut the rate by the same factor again.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace muster::collectives::inline transport {

struct TcpOptions {
  // Name of a congestion control. "" means the system's default, but cubic or reno in place of bbr.
  std::string congestion;
  int send_buffer = 4 << 20;  // bytes; the kernel limits them to net.core.wmem_max
  // 0 means the kernel's own tuning, which may go far beyond net.core.rmem_max.
  int receive_buffer = 0;
  // Breaks the connection to a host that no longer answers, as the last resort.
  std::chrono::milliseconds silence{30'000};

  // Reads MUSTER_CONGESTION.
  static TcpOptions from_environment();
};

// Sets the options of a listener, whose connections inherit them, of a socket before connect(), or of a connected
// socket. INVALID_ARGUMENT if this host lacks the requested congestion control or does not allow this user to set it.
base::Status apply(const TcpOptions& options, int socket);

// Returns a name such as "cubic", or "unknown" if the kernel does not report it.
std::string congestion_of(int socket);

}  // namespace muster::collectives::transport
