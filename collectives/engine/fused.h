// One allreduce of many tensors. They are packed into memory that the ranks of a host share. So packing serves as the
// copy in, and unpacking as the copy out. The work goes chunk by chunk. On one host, a chunk stays in the cache from
// packing to unpacking. Between hosts, one chunk is packed and another unpacked while a third one is being reduced.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "collectives/group/communicator.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline engine {

// One tensor of a batch. Each tensor begins at a multiple of 64 bytes in the batch.
struct FusedPart {
  const void* in = nullptr;  // null means zeros, from a rank that has joined
  void* out = nullptr;       // null if this rank does not need the result
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

class FusedAllreduce {
 public:
  explicit FusedAllreduce(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {}

  // `parts` must be in order and lie in a vector of `bytes` bytes. All ranks must call it with the same size.
  base::Status run(std::span<const FusedPart> parts, std::size_t bytes, DType type, RedOp op, Scale scale);

 private:
  struct Chunk {
    std::size_t begin;
    std::size_t end;
  };
  base::Status make_room(std::size_t bytes);
  base::Status run_pipelined(std::span<const FusedPart> parts, std::size_t bytes, DType type, RedOp op, Scale scale);
  static void pack(std::span<const FusedPart> parts, Chunk chunk, std::byte* to);
  static void unpack(std::span<const FusedPart> parts, Chunk chunk, const std::byte* from);

  const std::shared_ptr<Communicator> comm_;
  std::byte* buffer_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace muster::collectives::engine
