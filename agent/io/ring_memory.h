// The bytes under a FrameRing: one contiguous place that may grow but never moves. It is plain memory, or memory with
// a bounded file behind it. The file holds output that must be kept while no launcher receives it.
//
// Owner: the ring.
// Thread: the ring's thread.
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
  std::size_t size() const { return size_; }  // usable bytes at data()
  // Grows to at least `wanted` bytes in total. False if there is no more room, now or ever; then nothing has changed.
  virtual bool grow(std::size_t wanted) = 0;
  // Call this when the content is no longer needed. May release the memory that grow() has added.
  virtual void shrink() = 0;

 protected:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns a RingMemory of exactly `bytes` of memory.
std::unique_ptr<RingMemory> make_heap_memory(std::size_t bytes);

// Returns a RingMemory of `bytes` of memory, with up to `spool_bytes` of a file in `directory` behind them. The file is
// made when it is needed, and has no name afterwards.
// Its blocks are allocated before they are used. So a full disk only means that there is no more room.
// RESOURCE_EXHAUSTED: not even the addresses could be reserved.
base::Result<std::unique_ptr<RingMemory>> make_spool_memory(std::size_t bytes, std::size_t spool_bytes,
                                                            const std::string& directory);

}  // namespace muster::agent::io
