// Feeds bytes to the reader of HTTP answers, as a server sends them before it closes.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent/evidence/http_reply.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  constexpr std::size_t kMost = 16 << 10;  // fits into the socket
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  base::UniqueFd server(ends[1]);
  const std::size_t sent = std::min(size, kMost);
  if (sent > 0 && ::send(server.get(), data, sent, 0) != static_cast<ssize_t>(sent)) std::abort();
  server.reset();
  auto stream = agent::LimitedStream::adopt(
      base::UniqueFd(ends[0]),
      {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20), .bytes = kMost / 2});
  if (!stream.ok()) std::abort();
  const auto reply = agent::read_http_reply(*stream);
  if (reply.ok() && (reply->body.size() > kMost / 2 || reply->status < 0 || reply->status > 999)) std::abort();
  return 0;
}
