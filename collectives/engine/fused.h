// One allreduce of many tensors: packed into memory that the ranks of a host share, so that packing is the copy-in and
// unpacking the copy-out, chunk by chunk: on one host chunks stay in the cache from packing to unpacking; between hosts
// one chunk is packed and another unpacked while a third is on its way.
//
// One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/status.h"
#include "collectives/group/communicator.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives::inline engine {

// Of the tensors of a batch, each at a multiple of 64 bytes of it.
struct FusedPart {
  const void* in = nullptr;  // null: zeros, of a rank that has joined
  void* out = nullptr;       // null: nobody wants it
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

class FusedAllreduce {
 public:
  explicit FusedAllreduce(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {}

  // `parts` in order, in a vector of `bytes` bytes. All ranks call it with vectors of the same size.
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
