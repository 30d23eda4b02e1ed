// The messages by which agents pass blocks of staged files on to each other, inside of a TLS connection
// (proto/muster/v1/stage_broadcast.proto). All numbers are little-endian and have 4 bytes.
//
//   request  entry, block
//   reply    kind, entry, block, size, then `size` bytes
//
// The server answers requests in any order, each once, with kBlock or kRefused. While it has nothing to send, and a
// request waits, it sends kAlive. So the client can tell a server that waits for its own source from one that hangs.
// Thread: any; plain functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline stage {

// Names a block: the number of its file among the staged entries, and its number in the file.
struct BlockId {
  std::uint32_t entry = 0;
  std::uint32_t block = 0;
  auto operator<=>(const BlockId&) const = default;
};

inline constexpr std::size_t kBlockRequestSize = 8;
inline constexpr std::size_t kBlockReplySize = 16;       // without the bytes of the block
inline constexpr std::size_t kMostBlockBytes = 4 << 20;  // the largest block that a launcher may choose

enum class BlockReplyKind : std::uint32_t {
  kBlock = 1,    // the bytes of the block follow
  kAlive = 2,    // `id` has no meaning
  kRefused = 3,  // the server does not have the block, and will not get it
};

struct BlockReply {
  BlockReplyKind kind = BlockReplyKind::kBlock;
  BlockId id{};
  std::uint32_t size = 0;  // of the bytes that follow
};

// Call it on a thread that sends such messages: a write to a peer that has gone is then an error, and no signal.
void block_sigpipe();

void append_block_request(BlockId id, std::string& to);
void append_block_reply(const BlockReply& reply, std::string& to);

// `bytes` must have kBlockRequestSize bytes.
BlockId parse_block_request(std::string_view bytes);
// `bytes` must have kBlockReplySize bytes. INVALID_ARGUMENT for an unknown kind, or a size that does not fit the kind.
base::Result<BlockReply> parse_block_reply(std::string_view bytes);

}  // namespace muster::agent::stage
