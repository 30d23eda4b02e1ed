#include "agent/stage/block_frame.h"

#include <csignal>

#include "base/little_endian.h"

namespace muster::agent::inline stage {
namespace {

void append_number(std::uint32_t value, std::string& to) {
  char bytes[sizeof value];
  base::put_little_endian(bytes, value);
  to.append(bytes, sizeof bytes);
}

std::uint32_t number_at(std::string_view bytes, std::size_t index) {
  return base::get_little_endian<std::uint32_t>(bytes.data() + index * sizeof(std::uint32_t));
}

}  // namespace

void block_sigpipe() {
  sigset_t signals;
  (void)::sigemptyset(&signals);
  (void)::sigaddset(&signals, SIGPIPE);
  (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void append_block_request(BlockId id, std::string& to) {
  append_number(id.entry, to);
  append_number(id.block, to);
}

void append_block_reply(const BlockReply& reply, std::string& to) {
  append_number(static_cast<std::uint32_t>(reply.kind), to);
  append_number(reply.id.entry, to);
  append_number(reply.id.block, to);
  append_number(reply.size, to);
}

BlockId parse_block_request(std::string_view bytes) {
  return {.entry = number_at(bytes, 0), .block = number_at(bytes, 1)};
}

base::Result<BlockReply> parse_block_reply(std::string_view bytes) {
  const BlockReply reply{.kind = static_cast<BlockReplyKind>(number_at(bytes, 0)),
                         .id = {.entry = number_at(bytes, 1), .block = number_at(bytes, 2)},
                         .size = number_at(bytes, 3)};
  switch (reply.kind) {
    case BlockReplyKind::kBlock:
      if (reply.size > 0 && reply.size <= kMostBlockBytes) return reply;
      break;
    case BlockReplyKind::kAlive:
    case BlockReplyKind::kRefused:
      if (reply.size == 0) return reply;
      break;
  }
  return base::invalid_argument("no reply of a block has kind {} and {} bytes", number_at(bytes, 0), reply.size);
}

}  // namespace muster::agent::stage
