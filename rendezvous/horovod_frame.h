// The bytes between a host's Horovod cache and the store on rank 0's host, one frame after the other.
//
// Protocol (ours; both ends are one build): a header of 20 bytes, little endian, then scope, key and value.
//     u32 bytes of value | u64 id | u16 bytes of scope | u16 bytes of key | u8 kind | u8 code | u16 zero
// From the cache: kPut, kFinish (an id each, answered by one kDone with the same id), kFollow (a scope; no answer).
// From the store: kDone (code, and as value what is wrong), kBegin, kSet or kSetPacked (horovod_pack.h), kErased,
// kCleared, kSynced as the calls of HorovodUpstream::Listener. All that the store sends is in the order in which things
// happened there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

inline constexpr std::size_t kHorovodFrameHeader = 20;

enum class HorovodFrameKind : std::uint8_t {
  kPut = 1,
  kFinish = 2,
  kFollow = 3,
  kDone = 16,
  kBegin = 17,
  kSet = 18,
  kErased = 19,
  kCleared = 20,
  kSynced = 21,
  kSetPacked = 22,
};

struct HorovodFrame {
  HorovodFrameKind kind = HorovodFrameKind::kDone;
  std::uint64_t id = 0;  // kPut, kFinish, kDone; else 0
  base::Code code{};     // kDone; else ok
  std::string_view scope{};
  std::string_view key{};
  std::string_view value{};  // parsed: these three point into the bytes given
};

struct HorovodFrameParse {
  bool is_complete = false;
  HorovodFrame frame;    // when complete
  std::size_t size = 0;  // complete: bytes to consume; else bytes needed in all
};

// Header, scope and key; the value's bytes follow them on the wire. Scope and key are at most 64 KiB - 1 each.
std::string horovod_frame_head(const HorovodFrame& frame);

// INVALID_ARGUMENT for an unknown kind or code, lengths above the limits, non-zero padding.
base::Result<HorovodFrameParse> parse_horovod_frame(std::string_view bytes, const StoreLimits& limits);

}  // namespace muster::rendezvous
