// One end of a stream of bytes that is no descriptor: a stream inside the connection of a relay. A TlsStream can use
// it.
//
// Thread: one at a time. No call blocks.
#pragma once

#include <cstddef>

namespace muster::base {

class ByteChannel {
 public:
  static constexpr long kLater = -1;   // no byte can move now
  static constexpr long kBroken = -2;  // no byte will ever move again

  virtual ~ByteChannel() = default;
  // Returns the number of bytes that were read into `data`, kLater, kBroken, or 0 at the end of the stream.
  virtual long read(char* data, std::size_t size) = 0;
  // Returns the number of bytes that were taken from `data`, kLater, or kBroken.
  virtual long write(const char* data, std::size_t size) = 0;
};

}  // namespace muster::base
