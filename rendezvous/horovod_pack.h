// Compresses the values of Horovod's workers, so that they can be sent to every host of a job.
//
// A worker publishes (n-1) blocks of 136 bytes, one for each peer. They differ only in a counter (gloo's address and
// sequence number). Without packing, one machine would send about n^3 bytes to the hosts. With packing, a block takes
// about 5 bytes. The method works for any bytes without loss: it encodes the difference to the bytes 136 positions
// before, and counts runs of zeros.
//
// Format (ours): first the size of the value as u32, little endian. Then pairs of LEB128 numbers follow until all bytes
// are described. The first number counts bytes that equal the bytes 136 positions before them. The second number counts
// bytes that differ. These bytes follow the pair, XORed with the bytes 136 positions before them. Zeros stand before
// the first block.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

std::string pack_horovod_value(std::string_view value);  // for values below 4 GiB

// INVALID_ARGUMENT if `packed` does not come from pack_horovod_value for a value of at most `max_bytes`.
base::Result<std::string> unpack_horovod_value(std::string_view packed, std::size_t max_bytes);

// Packs each value once, for all hosts to which it is sent.
// Thread: one.
class HorovodPacker {
 public:
  // Null if packing saves less than half.
  HorovodValue packed(const HorovodValue& value);

 private:
  struct Entry {
    std::weak_ptr<const std::string> value;  // if it has expired, another value may lie at this address now
    HorovodValue packed;
  };
  std::unordered_map<const std::string*, Entry> entries_;
};

}  // namespace muster::rendezvous
