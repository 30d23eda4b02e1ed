// Frees the memory of an empty buffer. Connections call it, so that a quiet one holds no large buffer.
//
//   base::free_if_empty(partial_, 256);  // a buffer of up to 256 bytes stays
#pragma once

#include <cstddef>
#include <string>

namespace muster::base {

// Does nothing if the buffer is not empty, or if its memory is at most `kept` bytes. Does not assign an empty string:
// libstdc++ then keeps the memory of the buffer.
inline void free_if_empty(std::string& buffer, std::size_t kept) {
  if (buffer.empty() && buffer.capacity() > kept) std::string().swap(buffer);
}

}  // namespace muster::base
