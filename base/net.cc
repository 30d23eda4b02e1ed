// Numeric addresses, interfaces, and listening sockets.
// Read IpAddress first, then the interface functions, then listen_any() and listen_on().
#include "base/net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/file.h"
#include "base/strings.h"

namespace muster::base {

Result<IpAddress> IpAddress::from_sockaddr(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    return IpAddress(text);
  }
  if (address->sa_family != AF_INET6) {
    return base::invalid_argument("address family {} is neither IPv4 nor IPv6", address->sa_family);
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    ::inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, text, sizeof text);
    return IpAddress(text);
  }
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  std::string result = text;
  char name[IF_NAMESIZE];
  if (v6->sin6_scope_id != 0 && ::if_indextoname(v6->sin6_scope_id, name) != nullptr) result += std::string("%") + name;
  return IpAddress(std::move(result));
}

Result<IpAddress> IpAddress::parse(std::string_view text) {
  const std::string whole(text);
  if (whole.find('\0') != std::string::npos) {  // the C functions below stop reading at NUL
    return base::invalid_argument("an address holds no NUL byte");
  }
  const auto percent = whole.find('%');
  const std::string bare = whole.substr(0, percent);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (percent == std::string::npos && ::inet_pton(AF_INET, bare.c_str(), &v4.sin_addr) == 1) {
    return from_sockaddr(reinterpret_cast<const sockaddr*>(&v4));
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, bare.c_str(), &v6.sin6_addr) == 1) {
    MUSTER_ASSIGN_OR_RETURN(const IpAddress address, from_sockaddr(reinterpret_cast<const sockaddr*>(&v6)));
    if (percent == std::string::npos) return address;
    return IpAddress(address.str() + whole.substr(percent));
  }
  return base::invalid_argument("'{}' is not an IPv4 or IPv6 address", text);
}

bool IpAddress::is_loopback() const {
  return text_.starts_with("127.") || text_ == "::1";
}

bool IpAddress::is_link_local() const {
  return text_.starts_with("169.254.") || text_.starts_with("fe80:");
}

std::string format_endpoint(const IpAddress& address, std::uint16_t port) {
  return address.is_v6() ? fmt::format("[{}]:{}", address.str(), port) : fmt::format("{}:{}", address.str(), port);
}

SockAddr make_sockaddr(const IpAddress& address, std::uint16_t port) {
  SockAddr result;
  if (!address.is_v6()) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    ::inet_pton(AF_INET, address.str().c_str(), &v4->sin_addr);
    result.size = sizeof *v4;
    return result;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  const auto percent = address.str().find('%');
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  ::inet_pton(AF_INET6, address.str().substr(0, percent).c_str(), &v6->sin6_addr);
  if (percent != std::string::npos) v6->sin6_scope_id = ::if_nametoindex(address.str().substr(percent + 1).c_str());
  result.size = sizeof *v6;
  return result;
}

Result<std::vector<InterfaceAddress>> interface_addresses() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return errno_error(errno, "list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(raw, &::freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    auto address = IpAddress::from_sockaddr(at->ifa_addr);
    if (address.ok() && !address->is_link_local()) result.push_back({at->ifa_name, std::move(*address)});
  }
  std::stable_partition(result.begin(), result.end(), [](const auto& entry) { return !entry.address.is_loopback(); });
  return result;
}

Result<IpAddress> route_source(const IpAddress& peer) {
  const SockAddr to = make_sockaddr(peer, 9);
  const UniqueFd fd(::socket(to.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error(errno, "open a socket");
  if (::connect(fd.get(), to.get(), to.size) != 0) {
    return errno_error(errno, fmt::format("find a route to {}", peer.str()));
  }
  return local_address(fd.get());
}

Result<std::string> interface_of(const IpAddress& address) {
  MUSTER_ASSIGN_OR_RETURN(const auto all, interface_addresses());
  const auto found = std::ranges::find(all, address, &InterfaceAddress::address);
  if (found == all.end()) return base::not_found("no interface of this host has the address {}", address.str());
  return found->interface;
}

namespace {

template <typename Call>
Result<IpAddress> name_of(int socket_fd, Call call, std::string_view what) {
  SockAddr address;
  address.size = sizeof address.storage;
  if (call(socket_fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return errno_error(errno, what);
  }
  return IpAddress::from_sockaddr(address.get());
}

}  // namespace

Result<IpAddress> local_address(int socket_fd) {
  return name_of(socket_fd, ::getsockname, "read a socket's own address");
}

Result<IpAddress> peer_address(int socket_fd) {
  return name_of(socket_fd, ::getpeername, "read a socket's peer address");
}

Result<std::uint16_t> local_port(int socket_fd) {
  SockAddr address;
  address.size = sizeof address.storage;
  if (::getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return errno_error(errno, "read a socket's own port");
  }
  if (address.get()->sa_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port);
}

std::uint16_t port_to_keep() {
  // The file contains text such as "32768\t60999": the range of ports that the kernel gives to connections.
  long first = 32'768;
  if (const auto range = read_file("/proc/sys/net/ipv4/ip_local_port_range"); range.ok()) {
    const std::string_view text(*range);
    first = parse_decimal(text.substr(0, text.find_first_of("\t ")), 65'535).value_or(first);
  }
  const long lowest = first > 16'384 ? first / 2 : 1'024;
  const long highest = first > 16'384 ? first - 1 : 65'535;
  std::uint32_t chance = 0;
  MUSTER_CHECK(::getentropy(&chance, sizeof chance) == 0);
  return static_cast<std::uint16_t>(lowest + static_cast<long>(chance) % (highest - lowest + 1));
}

namespace {

// Lets a process bind a port on which connections of an earlier process may linger. Does so only for a fixed port.
void allow_reuse(const UniqueFd& fd, std::uint16_t port) {
  const int on = port != 0 ? 1 : 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

}  // namespace

Result<UniqueFd> listen_any(std::uint16_t port, int backlog) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SockAddr any;
  if (fd.valid()) {
    allow_reuse(fd, port);
    const int off = 0;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&any.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    any.size = sizeof *v6;
  }
  if (!fd.valid() || ::bind(fd.get(), any.get(), any.size) != 0) {
    // The host has no IPv6, so listen on 0.0.0.0.
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return errno_error(errno, "open a TCP socket");
    allow_reuse(fd, port);
    any = SockAddr{};
    auto* v4 = reinterpret_cast<sockaddr_in*>(&any.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    any.size = sizeof *v4;
    if (::bind(fd.get(), any.get(), any.size) != 0) return errno_error(errno, fmt::format("bind TCP port {}", port));
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::listen(fd.get(), backlog) != 0) return errno_error(errno, fmt::format("listen on TCP port {}", port));
  return fd;
}

Result<UniqueFd> listen_on(const IpAddress& address, std::uint16_t port, int backlog) {
  const SockAddr at = make_sockaddr(address, port);
  UniqueFd fd(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (fd.valid()) allow_reuse(fd, port);
  if (!fd.valid() || ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), backlog) != 0) {
    return errno_error(errno, fmt::format("listen on {}", format_endpoint(address, port)));
  }
  return fd;
}

std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

bool is_abandoned_socket(const std::string& path) {
  const auto address = unix_address(path);
  struct stat info {};
  // A connection to a plain file is refused, too.
  if (!address || ::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd.valid() && ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 &&
         errno == ECONNREFUSED;
}

int address_family(int socket) {
  int family = AF_INET;
  socklen_t size = sizeof family;
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family;
}

}  // namespace muster::base
