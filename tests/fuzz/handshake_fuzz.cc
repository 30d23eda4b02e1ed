// A peer of the handshake that says anything, in pieces of any size. It does not know the secret, so neither side ever
// gets to the end, and the listener says nothing before a well-formed Hello to itself.
// The first byte: which side we are, and how long the pieces are.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "collectives/transport/handshake.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using muster::collectives::Handshake;
  using muster::collectives::LinkRequest;
  if (size == 0) return 0;
  const bool is_caller = (data[0] & 1U) != 0;
  const std::size_t piece = 1 + data[0] / 2U;
  std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);

  auto pair = muster::base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
  if (!pair.ok()) std::abort();
  const std::string secret(32, 's');
  Handshake side = is_caller ? Handshake::call(std::move(pair->first), secret, {LinkRequest::Purpose::kLink, 1, 0, "w"})
                             : Handshake::answer(std::move(pair->first), secret, 0);
  while (true) {
    const auto turn = side.step();
    if (!turn.ok()) return 0;
    if (*turn == Handshake::Turn::kDone) std::abort();
    if (rest.empty()) return 0;
    const std::size_t now = std::min(piece, rest.size());
    if (::send(pair->second.get(), rest.data(), now, MSG_NOSIGNAL) < 0) return 0;
    rest.remove_prefix(now);
  }
}
