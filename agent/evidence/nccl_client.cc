// All of nccl_client.h. Read ask_nccl() at the end first, then converse().
#include "agent/evidence/nccl_client.h"

#include <algorithm>
#include <iterator>

#include "agent/evidence/limited_stream.h"
#include "base/net.h"
#include "base/strings.h"

namespace muster::agent::inline evidence {
namespace {

// The kernel spreads connections over all processes that listen at one port.
constexpr int kTries = 8;
constexpr std::size_t kLongestReport = 4u << 20;

base::Status expect(LimitedStream& stream, std::string_view request, std::string_view answer) {
  MUSTER_RETURN_IF_ERROR(stream.send(request));
  MUSTER_ASSIGN_OR_RETURN(const std::string line, stream.read_line());
  if (line.starts_with(answer)) return base::ok_status();
  return base::invalid_argument("NCCL's RAS answers '{}' to '{}'", base::printable(line.substr(0, 80)),
                                base::trim(request));
}

// True if one of the processes has the other end of this connection.
bool leads_to(const std::vector<pid_t>& pids, int fd, const TcpSocket& listener) {
  const auto port = base::local_port(fd);
  if (!port.ok()) return false;
  SocketTables tables;
  return std::ranges::any_of(pids, [&](pid_t pid) {
    return std::ranges::any_of(tables.of(pid), [&](const TcpSocket& socket) {
      return !socket.is_listening && socket.local_port == listener.local_port && socket.peer_port == *port;
    });
  });
}

base::IpAddress reachable(const TcpSocket& listener) {
  const std::string& text = listener.local.str();
  const bool is_any = text == "0.0.0.0" || text == "::";
  if (!is_any) return listener.local;
  return base::IpAddress::parse(listener.local.is_v6() ? "::1" : "127.0.0.1").value();
}

base::Result<LimitedStream> open(const std::vector<pid_t>& pids, const TcpSocket& listener,
                                 const StreamLimits& limits) {
  const base::SockAddr address = base::make_sockaddr(reachable(listener), listener.local_port);
  for (int i = 0; i < kTries; ++i) {
    MUSTER_ASSIGN_OR_RETURN(LimitedStream stream, LimitedStream::connect(address.get(), address.size, limits));
    // Its answer shows that the process has accepted the connection, so that its socket is in the tables.
    MUSTER_RETURN_IF_ERROR(expect(stream, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL "));
    if (leads_to(pids, stream.fd(), listener)) return stream;
  }
  return base::not_found("NCCL's RAS: processes of other jobs listen at port {}, too", listener.local_port);
}

base::Result<std::string> converse(const std::vector<pid_t>& pids, const TcpSocket& listener,
                                   const StreamLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(LimitedStream stream, open(pids, listener, limits));
  MUSTER_RETURN_IF_ERROR(expect(stream, "TIMEOUT 1\n", "OK"));
  MUSTER_RETURN_IF_ERROR(expect(stream, "SET FORMAT json\n", "OK"));
  MUSTER_RETURN_IF_ERROR(stream.send("VERBOSE STATUS\n"));
  return stream.read_to_end();
}

}  // namespace

std::optional<std::uint16_t> nccl_ras_port(const ProcessEnvironment& environment) {
  constexpr long kMaxPort = 65535;
  if (environment.get("NCCL_RAS_ENABLE") == "0") return std::nullopt;
  const auto address = environment.get("NCCL_RAS_ADDR");
  if (!address) return kNcclRasPort;
  const std::size_t colon = address->rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto port = base::parse_decimal(std::string_view(*address).substr(colon + 1), kMaxPort);
  if (!port || *port == 0) return std::nullopt;
  return static_cast<std::uint16_t>(*port);
}

std::vector<TcpSocket> nccl_ras_listeners(const std::vector<TcpSocket>& sockets, std::uint16_t port) {
  std::vector<TcpSocket> listeners;
  std::ranges::copy_if(sockets, std::back_inserter(listeners),
                       [port](const TcpSocket& socket) { return socket.is_listening && socket.local_port == port; });
  return listeners;
}

base::Result<std::string> ask_nccl(const std::vector<pid_t>& pids, std::chrono::steady_clock::time_point deadline) {
  SocketTables tables;
  base::Status problem = base::not_found("no process of the job listens for NCCL's RAS");
  for (const pid_t pid : pids) {
    const auto port = nccl_ras_port(read_environment(pid));
    if (!port) continue;
    for (const TcpSocket& listener : nccl_ras_listeners(tables.of(pid), *port)) {
      auto report = converse(pids, listener, {.deadline = deadline, .bytes = kLongestReport});
      if (report.ok()) return report;
      problem = report.status();
    }
  }
  return problem;
}

}  // namespace muster::agent::evidence
