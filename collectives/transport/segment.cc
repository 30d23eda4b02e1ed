// The layout of the shared segment, and how ranks create and map it.
// Read the functions from lanes_at() to size_for() first, which compute the layout, then create() and attach().
#include "collectives/transport/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace muster::collectives::inline transport {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kHugePage = 2 * kMiB;
constexpr std::size_t kHeadBytes = 4096;
constexpr std::uint64_t kMagic = 0x344d475352545355;  // also identifies the layout

struct Head {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint32_t> ranks;
  AbortRecord abort;
};
static_assert(sizeof(Head) <= kHeadBytes);

std::size_t times(std::size_t bytes, int n) {
  return bytes * static_cast<std::size_t>(n);
}

std::size_t lanes_at() {
  return kHeadBytes;
}
// The arenas begin here, aligned for huge pages.
std::size_t arenas_at(int ranks) {
  const std::size_t end = lanes_at() + times(sizeof(Lane), ranks);
  return (end + kHugePage - 1) / kHugePage * kHugePage;
}
std::size_t arena_bytes_for(int ranks) {
  return ranks <= 8 ? 2 * kMiB : kMiB;
}
std::size_t staging_at(int ranks) {
  return arenas_at(ranks) + times(arena_bytes_for(ranks), ranks);
}
std::size_t rings_at(int ranks) {
  return staging_at(ranks) + times(kStagingBytes + kResultBytes, ranks);
}
std::size_t size_for(int ranks) {
  return rings_at(ranks) + times(times(2 * kRingBytes, ranks), ranks);
}

}  // namespace

base::Result<Segment> Segment::create(int ranks) {
  base::UniqueFd fd(memfd_create("muster", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return base::errno_error(errno, "memfd_create for the shared memory of this host's ranks");
  if (ftruncate(fd.get(), static_cast<off_t>(size_for(ranks))) != 0) {
    return base::errno_error(errno, "setting the size of the ranks' shared memory");
  }
  // Seal the size. Otherwise a process could shrink the file under ranks that have it mapped, which would end them with
  // SIGBUS.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::errno_error(errno, "sealing the ranks' shared memory");
  }
  MUSTER_ASSIGN_OR_RETURN(Segment segment, map(std::move(fd), ranks));
  Head& head = *reinterpret_cast<Head*>(segment.memory_);
  head.ranks.store(static_cast<std::uint32_t>(ranks));
  head.magic.store(kMagic);
  return segment;
}

base::Result<Segment> Segment::attach(base::UniqueFd fd, int ranks) {
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return base::errno_error(errno, "inspecting the ranks' shared memory");
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (std::cmp_not_equal(found.st_size, size_for(ranks)) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return base::invalid_argument(
        "the received shared memory does not have the size for {} ranks: do all ranks use the same "
        "libmuster?",
        ranks);
  }
  MUSTER_ASSIGN_OR_RETURN(Segment segment, map(std::move(fd), ranks));
  const Head& head = *reinterpret_cast<const Head*>(segment.memory_);
  if (head.magic.load() != kMagic || std::cmp_not_equal(head.ranks.load(), ranks)) {
    return base::invalid_argument(
        "the received shared memory has another layout: do all ranks use the same "
        "libmuster?");
  }
  return segment;
}

base::Result<Segment> Segment::map(base::UniqueFd fd, int ranks) {
  MUSTER_CHECK(ranks >= 1 && ranks <= kMaxLocalRanks);
  void* const memory = mmap(nullptr, size_for(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return base::errno_error(errno, "mapping the ranks' shared memory");
  return Segment(std::move(fd), static_cast<std::byte*>(memory), ranks);
}

Segment::~Segment() {
  if (memory_ != nullptr) munmap(memory_, size_for(ranks_));
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)), ranks_(other.ranks_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(ranks_, other.ranks_);
  return *this;
}

AbortRecord& Segment::abort() const {
  return reinterpret_cast<Head*>(memory_)->abort;
}

Lane& Segment::lane(int rank) const {
  return reinterpret_cast<Lane*>(memory_ + lanes_at())[rank];
}

std::size_t Segment::arena_bytes() const {
  return arena_bytes_for(ranks_);
}

std::byte* Segment::arena(int rank) const {
  return memory_ + arenas_at(ranks_) + times(arena_bytes(), rank);
}

std::byte* Segment::staging(int rank) const {
  return memory_ + staging_at(ranks_) + times(kStagingBytes + kResultBytes, rank);
}

std::byte* Segment::result(int rank) const {
  return staging(rank) + kStagingBytes;
}

std::span<std::byte> Segment::ring(int from, int to, RingUse use) const {
  const std::size_t pair = rings_at(ranks_) + times(2 * kRingBytes, from * ranks_ + to);
  return {memory_ + pair + (use == RingUse::kMessages ? kRingBytes : 0), kRingBytes};
}

void Segment::populate(int own_rank) const {
  madvise(memory_, size_for(ranks_), MADV_HUGEPAGE);  // faster where huge pages are allowed
#ifdef MADV_POPULATE_WRITE
  // Populating only saves time. Kernels before 5.14 refuse it, and so does full memory. Then the first access
  // allocates.
  madvise(memory_, lanes_at() + times(sizeof(Lane), ranks_), MADV_POPULATE_WRITE);
  madvise(arena(own_rank), arena_bytes(), MADV_POPULATE_WRITE);
  madvise(staging(own_rank), kStagingBytes + kResultBytes, MADV_POPULATE_WRITE);
#endif
}

}  // namespace muster::collectives::transport
