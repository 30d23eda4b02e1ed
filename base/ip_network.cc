#include "base/ip_network.h"

#include <netinet/in.h>

#include <cstring>

#include "base/strings.h"

namespace muster::base {
namespace {

std::array<std::uint8_t, 16> bytes_of(const IpAddress& address) {
  std::array<std::uint8_t, 16> bytes{};
  const SockAddr socket_address = make_sockaddr(address, 0);
  if (address.is_v6()) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(socket_address.get());
    std::memcpy(bytes.data(), &v6->sin6_addr, 16);
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(socket_address.get());
    std::memcpy(bytes.data(), &v4->sin_addr, 4);
  }
  return bytes;
}

// Returns the mask of those bits of byte `index` that belong to the first `length` bits.
std::uint8_t mask_at(int index, int length) {
  const int bits = length - index * 8;
  if (bits >= 8) return 0xff;
  return static_cast<std::uint8_t>(bits <= 0 ? 0 : 0xff << (8 - bits));
}

}  // namespace

Result<IpNetwork> IpNetwork::parse(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    return base::invalid_argument("'{}' is not a network{}: write it as 10.1.0.0/16 or fd00::/8", printable(text), why);
  };
  const auto slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address.ok() || text.find('%') != std::string_view::npos) return fail("");
  IpNetwork network;
  network.text_ = text;
  network.is_v6_ = address->is_v6();
  network.bytes_ = bytes_of(*address);
  const int most = network.is_v6_ ? 128 : 32;
  const auto length = slash == std::string_view::npos ? most : parse_decimal(text.substr(slash + 1), most);
  if (!length) return fail(fmt::format(" (the length is a number from 0 to {})", most));
  network.length_ = static_cast<int>(*length);
  for (int i = 0; i < 16; ++i) {
    const std::uint8_t byte = network.bytes_[static_cast<std::size_t>(i)];
    if ((byte & ~mask_at(i, network.length_)) != 0) return fail(" (bits after the length are set)");
  }
  return network;
}

bool IpNetwork::contains(const IpAddress& address) const {
  if (address.is_v6() != is_v6_) return false;
  const auto bytes = bytes_of(address);
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (((bytes[at] ^ bytes_[at]) & mask_at(i, length_)) != 0) return false;
  }
  return true;
}

}  // namespace muster::base
