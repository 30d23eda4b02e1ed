// The bytes under a FrameRing: one contiguous place that may grow but never moves. In memory alone, or with a bounded
// file behind it for what must be kept while nobody takes it. Owned by the ring, used by its thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

class RingMemory {
 public:
  virtual ~RingMemory() = default;
  char* data() const { return data_; }
  std::size_t size() const { return size_; }  // bytes at data() that may be used
  // At least `wanted` bytes in all. False: there is no more room, now or ever; all is as before.
  virtual bool grow(std::size_t wanted) = 0;
  // Nothing in it is needed any more: what grow() has taken may go back.
  virtual void shrink() = 0;

 protected:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// `bytes` of memory, and no more.
std::unique_ptr<RingMemory> make_heap_memory(std::size_t bytes);

// `bytes` of memory, and behind them up to `spool_bytes` of a file in `directory`, made when it is needed and without a
// name from then on. Its blocks are allocated before they are used, so a full disk only means that there is no more
// room. RESOURCE_EXHAUSTED: not even the addresses can be had.
base::Result<std::unique_ptr<RingMemory>> make_spool_memory(std::size_t bytes, std::size_t spool_bytes,
                                                            const std::string& directory);

}  // namespace muster::agent::io
