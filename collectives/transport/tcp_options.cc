#include "collectives/transport/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/env.h"

namespace muster::collectives::inline transport {
namespace {

constexpr std::size_t kNameSize = 16;  // TCP_CA_NAME_MAX

bool set_congestion(int socket, const std::string& name) {
  return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

base::Status set_number(int socket, int level, int option, int value, const char* what) {
  if (::setsockopt(socket, level, option, &value, sizeof(value)) == 0) return base::ok_status();
  return base::errno_error(errno, what);
}

base::Status choose_congestion(const TcpOptions& options, int socket) {
  if (!options.congestion.empty()) {
    if (set_congestion(socket, options.congestion)) return base::ok_status();
    return base::invalid_argument(
        "cannot use the congestion control of MUSTER_CONGESTION on this host ({}); use one "
        "of net.ipv4.tcp_allowed_congestion_control",
        std::strerror(errno));
  }
  if (congestion_of(socket) != "bbr") return base::ok_status();
  // cubic needs CAP_NET_ADMIN unless it is the default; every user may use reno.
  if (!set_congestion(socket, "cubic")) set_congestion(socket, "reno");
  return base::ok_status();
}

// Breaks a connection that has been silent for `silence`, whether bytes of this rank are in flight or not.
base::Status detect_silence(int socket, std::chrono::milliseconds silence) {
  constexpr long long kMost = 100'000'000;  // a day; the kernel's limit for the time between probes is not much larger
  const int milliseconds = static_cast<int>(std::clamp<long long>(silence.count(), 1000, kMost));
  const int probe_seconds = std::max(1, milliseconds / 4000);
  MUSTER_RETURN_IF_ERROR(set_number(socket, SOL_SOCKET, SO_KEEPALIVE, 1, "set SO_KEEPALIVE"));
  MUSTER_RETURN_IF_ERROR(set_number(socket, IPPROTO_TCP, TCP_KEEPIDLE, probe_seconds, "set TCP_KEEPIDLE"));
  MUSTER_RETURN_IF_ERROR(set_number(socket, IPPROTO_TCP, TCP_KEEPINTVL, probe_seconds, "set TCP_KEEPINTVL"));
  MUSTER_RETURN_IF_ERROR(set_number(socket, IPPROTO_TCP, TCP_KEEPCNT, 3, "set TCP_KEEPCNT"));
  return set_number(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds, "set TCP_USER_TIMEOUT");
}

}  // namespace

TcpOptions TcpOptions::from_environment() {
  TcpOptions options;
  options.congestion = base::env_var("MUSTER_CONGESTION").value_or("");
  return options;
}

base::Status apply(const TcpOptions& options, int socket) {
  MUSTER_RETURN_IF_ERROR(set_number(socket, IPPROTO_TCP, TCP_NODELAY, 1, "set TCP_NODELAY"));
  MUSTER_RETURN_IF_ERROR(choose_congestion(options, socket));
  if (options.send_buffer > 0) {
    MUSTER_RETURN_IF_ERROR(set_number(socket, SOL_SOCKET, SO_SNDBUF, options.send_buffer, "set SO_SNDBUF"));
  }
  if (options.receive_buffer > 0) {
    MUSTER_RETURN_IF_ERROR(set_number(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer, "set SO_RCVBUF"));
  }
  return detect_silence(socket, options.silence);
}

std::string congestion_of(int socket) {
  std::array<char, kNameSize> name{};
  socklen_t size = name.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return "unknown";
  return {name.data(), strnlen(name.data(), size)};
}

}  // namespace muster::collectives::transport
