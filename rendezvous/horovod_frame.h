// The byte format between a host's Horovod cache and the store on rank 0's host: one frame after the other.
//
// Protocol (ours; both ends are from one build): a header of 20 bytes, little endian, then scope, key and value.
//     u32 bytes of value | u64 id | u16 bytes of scope | u16 bytes of key | u8 kind | u8 code | u16 zero
// The cache sends kPut and kFinish, each with an id. The store answers each of them by one kDone with the same id. The
// cache also sends kFollow with a scope, which gets no answer.
// The store sends kDone with a code and, after an error, the error's text as value. All other kinds that it sends are
// calls of HorovodUpstream::Listener: kBegin, kSet or kSetPacked (horovod_pack.h), kErased, kCleared, kSynced. It sends
// them in the order in which the changes happened.
// In a tree of hosts, kEnter goes from child to parent, and kMet from parent to child. The id is the number of the
// fence, the key its name, and the value a part of its blobs (meeting_part.h).
// Streams (byte_streams.h): the child chooses the id and sends kStreamOpen with the client's host as key. Both sides
// send kStreamBytes, kStreamCredit with a u32 as value, and kStreamClose. The parent answers each kStreamAsk by a
// kStreamWait.
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
  kEnter = 4,
  kStreamOpen = 5,
  kStreamBytes = 6,
  kStreamCredit = 7,
  kStreamClose = 8,
  kStreamAsk = 9,
  kStreamWait = 10,
  kDone = 16,
  kBegin = 17,
  kSet = 18,
  kErased = 19,
  kCleared = 20,
  kSynced = 21,
  kSetPacked = 22,
  kMet = 23,
};

struct HorovodFrame {
  HorovodFrameKind kind = HorovodFrameKind::kDone;
  std::uint64_t id = 0;  // not for kFollow and changes of scopes, which have 0
  base::Code code{};     // for kDone; else ok
  std::string_view scope{};
  std::string_view key{};
  std::string_view value{};  // in a parsed frame, these three point into the given bytes
};

struct HorovodFrameParse {
  bool is_complete = false;
  HorovodFrame frame;    // valid if complete
  std::size_t size = 0;  // if complete, the bytes to consume; else the bytes needed in total
};

// Returns the header, scope and key. The caller sends the value after them. Scope and key are at most 64 KiB - 1 bytes
// each.
std::string horovod_frame_head(const HorovodFrame& frame);

// INVALID_ARGUMENT for an unknown kind or code, lengths beyond the limits, or non-zero padding.
base::Result<HorovodFrameParse> parse_horovod_frame(std::string_view bytes, const StoreLimits& limits);

}  // namespace muster::rendezvous
