#include "collectives/engine/fused.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace muster::collectives::inline engine {
namespace {

// On one host, a chunk of the tensors and its packed copy should stay in the second-level cache until it is unpacked.
// Measured with 64 MiB in 100 tensors on 2 ranks: 1 MiB takes 16.4 ms, 512 KiB 14.9, 256 KiB 14.5, 128 KiB 15.
constexpr std::size_t kHostChunk = std::size_t{1} << 18;
// Between hosts, moving a chunk must take long compared with starting an operation.
constexpr std::size_t kLinkChunk = std::size_t{8} << 20;
constexpr std::size_t kSlots = 3;  // one chunk is packed, one is being reduced, one is unpacked

// Calls `visit` for each part that overlaps [begin, end), with the bytes [from, to) of the part that lie there.
template <typename Visit>
void for_each_in(std::span<const FusedPart> parts, std::size_t begin, std::size_t end, const Visit& visit) {
  auto part = std::ranges::upper_bound(parts, begin, {}, &FusedPart::begin);
  if (part != parts.begin()) --part;
  for (; part != parts.end() && part->begin < end; ++part) {
    const std::size_t from = std::max(begin, part->begin) - part->begin;
    const std::size_t to = std::min(end - part->begin, part->bytes);
    if (from < to) visit(*part, from, to);
  }
}

}  // namespace

void FusedAllreduce::pack(std::span<const FusedPart> parts, Chunk chunk, std::byte* to) {
  std::size_t filled = chunk.begin;
  for_each_in(parts, chunk.begin, chunk.end, [&](const FusedPart& part, std::size_t from, std::size_t end) {
    const std::size_t at = part.begin + from;
    // Clear the gaps between tensors, so that no uninitialised bytes are reduced.
    std::memset(to + (filled - chunk.begin), 0, at - filled);
    std::byte* const place = to + (at - chunk.begin);
    if (part.in == nullptr) {
      std::memset(place, 0, end - from);
    } else {
      std::memcpy(place, static_cast<const std::byte*>(part.in) + from, end - from);
    }
    filled = part.begin + end;
  });
  std::memset(to + (filled - chunk.begin), 0, chunk.end - filled);
}

void FusedAllreduce::unpack(std::span<const FusedPart> parts, Chunk chunk, const std::byte* from) {
  for_each_in(parts, chunk.begin, chunk.end, [&](const FusedPart& part, std::size_t begin, std::size_t end) {
    if (part.out == nullptr) return;
    std::memcpy(static_cast<std::byte*>(part.out) + begin, from + (part.begin + begin - chunk.begin), end - begin);
  });
}

// All ranks need more room at the same time.
base::Status FusedAllreduce::make_room(std::size_t bytes) {
  if (bytes <= room_) return base::ok_status();
  if (buffer_ != nullptr) MUSTER_RETURN_IF_ERROR(comm_->release(buffer_));
  buffer_ = nullptr;
  room_ = 0;
  const std::size_t wanted = std::bit_ceil(bytes);
  MUSTER_ASSIGN_OR_RETURN(buffer_, comm_->allocate(wanted));
  room_ = wanted;
  return base::ok_status();
}

base::Status FusedAllreduce::run(std::span<const FusedPart> parts, std::size_t bytes, DType type, RedOp op,
                                 Scale scale) {
  if (comm_->hosts() > 1 && bytes > kLinkChunk) return run_pipelined(parts, bytes, type, op, scale);
  const std::size_t size = std::min(bytes, comm_->hosts() > 1 ? kLinkChunk : kHostChunk);
  MUSTER_RETURN_IF_ERROR(make_room(size));
  for (std::size_t begin = 0; begin < bytes; begin += size) {
    const Chunk chunk{begin, std::min(bytes, begin + size)};
    pack(parts, chunk, buffer_);
    MUSTER_RETURN_IF_ERROR(
        comm_->allreduce(buffer_, buffer_, (chunk.end - chunk.begin) / size_of(type), type, op, scale));
    unpack(parts, chunk, buffer_);
  }
  return base::ok_status();
}

base::Status FusedAllreduce::run_pipelined(std::span<const FusedPart> parts, std::size_t bytes, DType type, RedOp op,
                                           Scale scale) {
  MUSTER_RETURN_IF_ERROR(make_room(kSlots * kLinkChunk));
  struct Running {
    Chunk chunk{};
    std::byte* place = nullptr;
    std::shared_ptr<Request> request;
  };
  std::array<Running, kSlots> slots;
  base::Status status;
  const auto finish = [&](Running& running) {
    if (running.request == nullptr) return;
    const base::Status done = running.request->wait();
    if (done.ok()) unpack(parts, running.chunk, running.place);
    if (status.ok()) status = done;
    running.request = nullptr;
  };
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < bytes && status.ok(); begin += kLinkChunk, ++number) {
    Running& own = slots[number % kSlots];
    finish(own);
    own.chunk = {begin, std::min(bytes, begin + kLinkChunk)};
    own.place = buffer_ + number % kSlots * kLinkChunk;
    pack(parts, own.chunk, own.place);
    own.request = comm_->start([place = own.place, count = (own.chunk.end - begin) / size_of(type), type, op, scale,
                                comm = comm_.get()] { return comm->allreduce(place, place, count, type, op, scale); });
  }
  for (std::size_t i = 0; i < kSlots; ++i) finish(slots[(number + i) % kSlots]);
  return status;
}

}  // namespace muster::collectives::engine
