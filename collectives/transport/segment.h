// The memory that the ranks of a communicator on one host share. It is one anonymous file that all of them map. It has
// no name, so nothing can be left behind.
//
//   Head            magic, number of ranks, the abort record
//   Lane    x ranks what a rank publishes: two alternating lines, and facts about itself
//   arena   x ranks what a rank provides in the rounds of the team (host_team.h)
//   staging x ranks two areas for allreduce between hosts: what others must reduce, and what was reduced
//   rings   two streams of bytes for each ordered pair of ranks (ring_link.h): one for collectives, one for messages;
//           their pages are allocated at the first use
//
// Sizes follow from the number of ranks. No value in the memory is used as a size or an offset.
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
// The bytes that every team may put into a slot, whatever its size. One segment's own limit is arena_bytes() / 4.
inline constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
inline constexpr std::size_t kStagingBytes = std::size_t{1} << 20;
inline constexpr std::size_t kResultBytes = kStagingBytes / 2 + 4096;  // holds one slice if there are two ranks or more
inline constexpr std::size_t kRingCapacity = std::size_t{256} << 10;
inline constexpr std::size_t kRingBytes = kRingCapacity + 4096;  // with the ring's positions
inline constexpr int kMaxLocalRanks = 1024;

// Selects one of a pair's two rings.
enum class RingUse { kCollectives, kMessages };

// A Line fills two cache lines, because processors fetch them in pairs. So a rank that sees the flag gets the data with
// it or soon after.
struct alignas(128) Line {
  Flag flag;  // the round's number
  Call call;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(Line) == 128);

struct Lane {
  Line lines[2];
  alignas(128) Flag bell;                        // rung when bytes moved in a ring of this rank
  alignas(128) std::atomic<std::uint32_t> left;  // 1 if this rank has closed the communicator
  std::atomic<std::uint64_t> cpu_mask[16];       // the processors on which this rank may run
  // The last operation over links that this rank has begun: its number, and its call in two words. The number is 0
  // while the rank writes the words.
  alignas(128) std::atomic<std::uint64_t> step[3];
};

class Segment {
 public:
  // Called by the first rank of a host. The others attach to its fd(), whose size must be exactly that for `ranks`.
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
  // Returns the size of one rank's arena, 1 or 2 MiB. With this size a line has left the readers' caches before its
  // owner writes it again, which makes writing twice as fast.
  std::size_t arena_bytes() const;
  std::byte* arena(int rank) const;
  std::byte* staging(int rank) const;  // kStagingBytes
  std::byte* result(int rank) const;   // kResultBytes
  std::span<std::byte> ring(int from, int to, RingUse use) const;
  // Allocates the pages that every operation uses, so that the first operations need not.
  void populate(int own_rank) const;

 private:
  Segment(base::UniqueFd fd, std::byte* memory, int ranks) : fd_(std::move(fd)), memory_(memory), ranks_(ranks) {}
  static base::Result<Segment> map(base::UniqueFd fd, int ranks);

  base::UniqueFd fd_;
  std::byte* memory_ = nullptr;
  int ranks_ = 0;
};

}  // namespace muster::collectives::transport
