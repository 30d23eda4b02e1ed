// Makes the values of Horovod's workers short enough to be sent to every host of a job.
//
// A worker publishes (n-1) blocks of 136 bytes, one for each peer, which are equal but for a counter (gloo's address
// and sequence number). Sent whole to every host that is n^3 bytes out of one machine; packed it is about 5 bytes for
// each block. Lossless, for any bytes: the difference to what stood 136 bytes before, with runs of zeros counted.
//
// Format (ours): u32 bytes of the value, little endian; then, until that many are described: how many bytes are as 136
// before (before the first block: zero), how many then differ, both as LEB128, and those bytes XOR the ones before.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

std::string pack_horovod_value(std::string_view value);  // below 4 GiB

// INVALID_ARGUMENT: not what pack_horovod_value makes of a value of at most `max_bytes`.
base::Result<std::string> unpack_horovod_value(std::string_view packed, std::size_t max_bytes);

// Packs each value once, for however many hosts it is sent to. One thread.
class HorovodPacker {
 public:
  // Null where packing saves less than half.
  HorovodValue packed(const HorovodValue& value);

 private:
  struct Entry {
    std::weak_ptr<const std::string> value;  // another may lie at this address by now
    HorovodValue packed;
  };
  std::unordered_map<const std::string*, Entry> entries_;
};

}  // namespace muster::rendezvous
