// A relay that sends any bytes: the launcher's end never crashes, and no stream holds more than its window. The
// channels read a part of what arrives, and answer.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/net.h"
#include "launcherd/relays/relay_connection.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  constexpr std::size_t kPiece = 4096;
  auto pair = base::make_socketpair(SOCK_STREAM);
  if (!pair.ok()) return 0;
  std::map<std::uint32_t, std::unique_ptr<base::ByteChannel>> channels;
  launcherd::RelayConnection::Events events;
  events.on_open = [&channels](std::uint32_t stream, std::unique_ptr<base::ByteChannel> channel) {
    if (stream % 4 != 3) channels[stream] = std::move(channel);  // the others are refused
  };
  events.on_ready = [&channels](std::uint32_t stream) {
    const auto found = channels.find(stream);
    if (found == channels.end()) std::abort();
    char bytes[100];
    const long n = found->second->read(bytes, sizeof bytes);
    if (n > 0) (void)found->second->write(bytes, static_cast<std::size_t>(n));
    if (n == 0 || n == base::ByteChannel::kBroken || stream % 4 == 2) channels.erase(found);
  };
  launcherd::RelayConnection connection(std::move(pair->first), std::move(events));
  for (std::size_t at = 0; at < size; at += kPiece) {
    const std::size_t piece = std::min(kPiece, size - at);
    if (::send(pair->second.get(), data + at, piece, MSG_NOSIGNAL) != static_cast<ssize_t>(piece)) return 0;
    if (!connection.serve().ok() || !connection.write_pending().ok()) break;
    char ignored[kPiece];
    while (::recv(pair->second.get(), ignored, sizeof ignored, MSG_DONTWAIT) > 0) continue;
  }
  if (connection.streams() != channels.size()) std::abort();
  return 0;
}
