// The memory that a communicator's ranks of one host share: one anonymous file, mapped by all of them, without a name
// that could be left behind.
//
//   Head            magic, number of ranks, the abort record
//   Lane    x ranks what a rank tells the others: two lines that take turns, and facts about itself
//   arena   x ranks what it gives the others in the rounds of the team (host_team.h)
//   staging x ranks two areas for allreduce between hosts: what others are to reduce, and what was reduced
//   rings   for each ordered pair of ranks two streams of bytes (ring_link.h), one of collectives, one of messages;
//           pages come when they are used
//
// Sizes follow from the number of ranks; nothing that lies in the memory is used as a size or an offset.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/call/call.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline transport {

inline constexpr std::size_t kInlineBytes = 104;
// What any team may give in one round, whatever its size; arena_bytes() / 4 is what this one may.
inline constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
inline constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
inline constexpr std::size_t kResultBytes = kStagingBytes / 2 + 4096;  // the slice of one of two ranks or more
inline constexpr std::size_t kRingCapacity = std::size_t{256} << 10;
inline constexpr std::size_t kRingBytes = kRingCapacity + 4096;  // with its positions
inline constexpr int kMaxLocalRanks = 1024;

// Which of a pair's two rings.
enum class RingUse { kCollectives, kMessages };

// A pair of cache lines, because processors fetch pairs: who sees the flag has what came with it, or soon will.
struct alignas(128) Line {
  Flag flag;  // the number of the round
  Call call;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Line) == 128);

struct Lane {
  Line lines[2];
  alignas(128) Flag bell;                        // rung when something moved in a ring of this rank
  alignas(128) std::atomic<std::uint32_t> left;  // 1: this rank has closed the communicator
  std::atomic<std::uint64_t> cpu_mask[16];       // where it may run
  // The last operation over links that this rank has begun: its number, and its call in two words. Number 0: it
  // changes.
  alignas(128) std::atomic<std::uint64_t> step[3];
};

class Segment {
 public:
  // Of the first rank of a host; the others attach to its fd(), which must have just the size for `ranks`.
  static base::Result<Segment> create(int ranks);
  static base::Result<Segment> attach(base::UniqueFd fd, int ranks);
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int fd() const { return fd_.get(); }
  int ranks() const { return ranks_; }
  AbortRecord& abort() const;
  Lane& lane(int rank) const;
  // A few MiB a rank: lines that have not been written for that long have left the caches of those who read them, and
  // are written twice as fast as those that others still hold.
  std::size_t arena_bytes() const;
  std::byte* arena(int rank) const;
  std::byte* staging(int rank) const;  // kStagingBytes
  std::byte* result(int rank) const;   // kResultBytes
  std::span<std::byte> ring(int from, int to, RingUse use) const;
  // Takes the pages of what every operation uses, so that the first ones do not.
  void populate(int own_rank) const;

 private:
  Segment(base::UniqueFd fd, std::byte* memory, int ranks) : fd_(std::move(fd)), memory_(memory), ranks_(ranks) {}
  static base::Result<Segment> map(base::UniqueFd fd, int ranks);

  base::UniqueFd fd_;
  std::byte* memory_ = nullptr;
  int ranks_ = 0;
};

}  // namespace muster::collectives::transport
