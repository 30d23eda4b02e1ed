#include "agent/evidence/store_connection.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::inline evidence {
namespace {

constexpr long kMaxPort = 65535;

base::Result<rendezvous::ConnectionEnds> parse_ends(std::string_view text) {
  const auto parts = base::split(text, ' ');
  if (parts.size() != 4) return base::invalid_argument("a connection has {} parts instead of 4", parts.size());
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress peer, base::IpAddress::parse(parts[0]));
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress local, base::IpAddress::parse(parts[2]));
  const auto peer_port = base::parse_decimal(parts[1], kMaxPort);
  const auto local_port = base::parse_decimal(parts[3], kMaxPort);
  if (!peer_port || !local_port) return base::invalid_argument("a connection has no valid ports");
  return rendezvous::ConnectionEnds{.peer = std::move(peer),
                                    .peer_port = static_cast<std::uint16_t>(*peer_port),
                                    .local = std::move(local),
                                    .local_port = static_cast<std::uint16_t>(*local_port)};
}

}  // namespace

std::vector<rendezvous::ConnectionEnds> store_connections(std::span<const TcpSocket> sockets, std::uint16_t port) {
  std::vector<rendezvous::ConnectionEnds> connections;
  for (const TcpSocket& socket : sockets) {
    if (socket.is_listening || socket.peer_port != port) continue;
    connections.push_back(
        {.peer = socket.local, .peer_port = socket.local_port, .local = socket.peer, .local_port = socket.peer_port});
  }
  if (connections.size() > kMostStoreConnections) connections.clear();
  std::ranges::sort(connections, {}, &rendezvous::ConnectionEnds::peer_port);
  return connections;
}

std::string format_store_connections(std::span<const rendezvous::ConnectionEnds> connections) {
  std::vector<std::string> texts;
  for (const rendezvous::ConnectionEnds& ends : connections) {
    texts.push_back(fmt::format("{} {} {} {}", ends.peer.str(), ends.peer_port, ends.local.str(), ends.local_port));
  }
  return base::join(texts, "; ");
}

base::Result<std::vector<rendezvous::ConnectionEnds>> parse_store_connections(std::string_view text) {
  std::vector<rendezvous::ConnectionEnds> connections;
  if (text.empty()) return connections;
  for (const std::string_view part : base::split(text, ';')) {
    if (connections.size() >= kMostStoreConnections) return base::invalid_argument("too many connections to a store");
    MUSTER_ASSIGN_OR_RETURN(auto ends, parse_ends(base::trim(part)));
    connections.push_back(std::move(ends));
  }
  return connections;
}

}  // namespace muster::agent::evidence
