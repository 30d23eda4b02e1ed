// Numeric socket addresses, and this host's network interfaces. Name look-ups can block, so they are in
// launcherd/hosts.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::base {

// An IPv4 or IPv6 literal in its canonical text form. An IPv4-mapped IPv6 address becomes IPv4. A scope
// ("fe80::1%eth0") is kept.
class IpAddress {
 public:
  static Result<IpAddress> parse(std::string_view text);
  static Result<IpAddress> from_sockaddr(const sockaddr* address);

  const std::string& str() const { return text_; }
  bool is_v6() const { return text_.find(':') != std::string::npos; }
  bool is_loopback() const;
  bool is_link_local() const;
  auto operator<=>(const IpAddress&) const = default;

 private:
  explicit IpAddress(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Returns text such as "1.2.3.4:80" or "[::1]:80".
std::string format_endpoint(const IpAddress& address, std::uint16_t port);

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
SockAddr make_sockaddr(const IpAddress& address, std::uint16_t port);

struct InterfaceAddress {
  std::string interface;
  IpAddress address;
};

// Returns the addresses of interfaces that are up, loopback last, without link-local ones.
Result<std::vector<InterfaceAddress>> interface_addresses();

// Returns the local address that the kernel would use towards `peer`. It asks for the route with an unconnected UDP
// socket; no packet is sent.
Result<IpAddress> route_source(const IpAddress& peer);

// Returns the interface that has `address`, or NOT_FOUND.
Result<std::string> interface_of(const IpAddress& address);

Result<IpAddress> local_address(int socket_fd);
Result<IpAddress> peer_address(int socket_fd);
Result<std::uint16_t> local_port(int socket_fd);

// Listens on all addresses. The socket is non-blocking, close-on-exec, with TCP_NODELAY. It is dual-stack on [::], or
// IPv4 only if the host has no IPv6. Port 0 picks a free port.
Result<UniqueFd> listen_any(std::uint16_t port, int backlog);
// Returns a random port outside the range that the kernel gives to connections. Use it for a listener that ends and
// must later listen on the same port again. The port may be in use.
std::uint16_t port_to_keep();
// Does the same as listen_any(), but on one address of this host.
Result<UniqueFd> listen_on(const IpAddress& address, std::uint16_t port, int backlog);

// nullopt if `path` is longer than a Unix socket's address can be.
std::optional<sockaddr_un> unix_address(const std::string& path);

// Returns true if `path` is a socket without a listener, so that a connection to it is refused.
bool is_abandoned_socket(const std::string& path);

// Returns the socket's address family. AF_INET if the kernel does not report it.
int address_family(int socket);

}  // namespace muster::base
