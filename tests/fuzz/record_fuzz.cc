// A peer of an encrypted link that does not have its keys and sends anything, in pieces of any size: nothing of it is
// ever given to the rank. The first byte: how long the pieces are, and how much the rank wants at once.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "collectives/transport/sealed_link.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using muster::collectives::SealedLink;
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  std::span<const std::uint8_t> rest(data + 1, size - 1);
  auto pair = muster::base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
  if (!pair.ok()) std::abort();
  auto link = SealedLink::create(std::move(pair->first), {}, "rank 1 (n1)");
  if (!link.ok()) std::abort();
  std::array<std::byte, 512> place;
  while (true) {
    const std::ptrdiff_t received = (*link)->try_receive(std::span(place).first(piece));
    if (received > 0) std::abort();
    if (received < 0) return 0;
    if (rest.empty()) return 0;
    const std::size_t now = std::min(piece, rest.size());
    if (::send(pair->second.get(), rest.data(), now, MSG_NOSIGNAL) < 0) return 0;
    rest = rest.subspan(now);
  }
}
