#include "launcherd/service/tcp_listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/net.h"
#include "base/strings.h"

namespace muster::launcherd::inline service {
namespace {

constexpr int kApiBacklog = 1024;  // the kernel caps it at net.core.somaxconn
constexpr long kLastPort = 65'535;

struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};

base::Result<HostAndPort> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : base::parse_decimal(address.substr(colon + 1), kLastPort);
  if (!port || colon == 0) {
    return base::invalid_argument("'{}' is not an address: write HOST:PORT", base::printable(address));
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return HostAndPort{std::move(host), static_cast<std::uint16_t>(*port)};
}

base::Result<std::vector<base::IpAddress>> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int problem = ::getaddrinfo(host.c_str(), nullptr, &hints, &raw);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(raw, ::freeaddrinfo);
  if (problem != 0) {
    return base::unavailable("look up {}: {}", base::printable(host), ::gai_strerror(problem));
  }
  std::vector<base::IpAddress> addresses;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    auto address = base::IpAddress::from_sockaddr(each->ai_addr);
    if (address.ok() && std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(std::move(*address));
    }
  }
  return addresses;
}

base::Result<base::UniqueFd> listen_at_one(const base::IpAddress& address, std::uint16_t port) {
  const bool is_any = address.str() == "0.0.0.0" || address.str() == "::";
  return is_any ? base::listen_any(port, kApiBacklog) : base::listen_on(address, port, kApiBacklog);
}

}  // namespace

base::Result<TcpListener> listen_tcp(const std::string& address) {
  MUSTER_ASSIGN_OR_RETURN(const HostAndPort wanted, split_address(address));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<base::IpAddress> addresses, resolve(wanted.host));
  TcpListener listener;
  listener.port = wanted.port;
  base::Status failed = base::unavailable("{} has no address", base::printable(wanted.host));
  for (const base::IpAddress& each : addresses) {
    auto fd = listen_at_one(each, static_cast<std::uint16_t>(listener.port));
    if (!fd.ok()) {
      failed = fd.status();  // a name may have an address that another host has
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(listener.port, base::local_port(fd->get()));
    listener.sockets.push_back(std::move(*fd));
  }
  if (listener.sockets.empty()) return failed;
  return listener;
}

}  // namespace muster::launcherd::service
