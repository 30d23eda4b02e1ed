#include "collectives/group/registered_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

namespace muster::collectives::inline group {
namespace {

constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kPage = std::size_t{2} << 20;  // allows huge pages, where the system has them

struct Want {
  std::uint64_t bytes = 0;
};

// If the kernel refuses, the pages stay in use until they are unmapped.
void free_pages(std::byte* memory, std::size_t bytes) {
  // A buffer that was made private has no pages in the file that are its own.
  if (madvise(memory, bytes, MADV_REMOVE) != 0) madvise(memory, bytes, MADV_DONTNEED);
}

}  // namespace

RegisteredMemory::~RegisteredMemory() {
  for (const auto& [id, region] : regions_) unmap(region);
}

// A lent buffer stays: its holder unmaps it.
void RegisteredMemory::unmap(const Region& region) const {
  if (region.loan != nullptr) {
    const std::lock_guard lock(region.loan->mutex);
    if (!region.loan->is_dropped) {
      region.loan->is_mapped_here = false;
      std::byte* const own = own_part(region);
      std::byte* const after = own + region.bytes_per_rank;
      if (own != region.memory) munmap(region.memory, static_cast<std::size_t>(own - region.memory));
      const std::size_t rest = region.mapped - static_cast<std::size_t>(after - region.memory);
      if (rest > 0) munmap(after, rest);
      return;
    }
  }
  munmap(region.memory, region.mapped);
}

void RegisteredMemory::drop(Loan& loan, std::byte* memory, std::size_t bytes) {
  const std::lock_guard lock(loan.mutex);
  loan.is_dropped = true;
  if (!loan.is_mapped_here) {
    munmap(memory, bytes);
  } else {
    free_pages(memory, bytes);
  }
}

std::shared_ptr<std::byte> RegisteredMemory::lend(std::byte* memory) {
  for (auto& [id, region] : regions_) {
    if (memory != own_part(region) || region.is_released || region.loan != nullptr) continue;
    region.loan = std::make_shared<Loan>();
    return {memory, [loan = region.loan, bytes = region.bytes_per_rank](std::byte* own) { drop(*loan, own, bytes); }};
  }
  return nullptr;
}

base::Result<base::UniqueFd> RegisteredMemory::share_file(std::uint32_t id, std::size_t bytes) {
  const std::string name = fmt::format("{}/memory{}", communicator_, id);
  if (team_.rank() != 0) {
    const Member& first = world_.member(team_.mate(0).world_rank);
    return request_memory(first.unix_name, name, world_.options().deadline);
  }
  base::UniqueFd fd(memfd_create("muster-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return base::errno_error(errno, "memfd_create for a registered buffer");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::errno_error(errno, fmt::format("allocate {} bytes for registered buffers", bytes));
  }
  MUSTER_RETURN_IF_ERROR(world_.service().share(name, fd.get()));
  return fd;
}

base::Status RegisteredMemory::map(Region& region, std::uint32_t id) {
  MUSTER_ASSIGN_OR_RETURN(region.fd, share_file(id, region.mapped));
  struct stat found {};
  if (fstat(region.fd.get(), &found) != 0 || std::cmp_not_equal(found.st_size, region.mapped)) {
    return base::internal_error("the first rank of this host shares a registered buffer of another size");
  }
  void* const memory = mmap(nullptr, region.mapped, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd.get(), 0);
  if (memory == MAP_FAILED) return base::errno_error(errno, "mapping registered buffers");
  region.memory = static_cast<std::byte*>(memory);
  madvise(region.memory, region.mapped, MADV_HUGEPAGE);  // faster where huge pages are allowed
#ifdef MADV_POPULATE_WRITE
  // Older kernels allocate the pages at the first access.
  madvise(own_part(region), region.own_bytes, MADV_POPULATE_WRITE);
#endif
  return base::ok_status();
}

base::Result<std::byte*> RegisteredMemory::allocate(std::size_t bytes) {
  const Call call{.op = Op::kAllocate};
  team_.begin();
  team_.set_payload(Want{bytes});
  team_.publish(call);
  MUSTER_RETURN_IF_ERROR(team_.wait_for_all(call));
  std::uint64_t most = 1;
  for (int i = 0; i < team_.size(); ++i) most = std::max(most, team_.payload_as<Want>(i).bytes);
  Region region;
  region.bytes_per_rank = (most + kPage - 1) / kPage * kPage;
  region.own_bytes = bytes;
  region.mapped = region.bytes_per_rank * static_cast<std::size_t>(team_.size());
  const std::uint32_t id = ++last_;
  const base::Status mapped = map(region, id);
  std::byte* const own = mapped.ok() ? own_part(region) : nullptr;
  if (mapped.ok()) regions_[id] = std::move(region);
  const base::Status met = mapped.ok() ? team_.meet(call) : mapped;
  if (team_.rank() == 0) world_.service().unshare(fmt::format("{}/memory{}", communicator_, id));
  MUSTER_RETURN_IF_ERROR(met);
  return own;
}

base::Status RegisteredMemory::release(std::byte* memory) {
  for (auto& [id, region] : regions_) {
    if (memory != own_part(region) || region.is_released || region.loan != nullptr) continue;
    region.is_released = true;
    region.own_bytes = 0;
    free_pages(memory, region.bytes_per_rank);
    return base::ok_status();
  }
  return base::invalid_argument("not a registered buffer of communicator {}", communicator_);
}

base::Status RegisteredMemory::make_private() {
  for (auto& [id, region] : regions_) {
    if (region.is_free()) continue;
    std::byte* const own = own_part(region);
    const auto at = static_cast<off_t>(own - region.memory);
    // Map the private copy at the same address, so that other threads find the buffer at any time. The kernel copies a
    // private page only when it is written, so write each page. Other threads may write there at the same time. clang
    // turns fetch_or(0) into a read, so exchange a byte for itself.
    void* const memory =
        mmap(own, region.bytes_per_rank, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, region.fd.get(), at);
    if (memory == MAP_FAILED) return base::errno_error(errno, "detach registered buffers from other ranks");
    for (std::size_t page = 0; page < region.own_bytes; page += kSmallPage) {
      const std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(own + page));
      unsigned char seen = byte.load();
      while (!byte.compare_exchange_weak(seen, seen)) {
      }
    }
  }
  return base::ok_status();
}

Place RegisteredMemory::find(const void* data, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  for (const auto& [id, region] : regions_) {
    const auto own = reinterpret_cast<std::uintptr_t>(own_part(region));
    if (!region.is_free() && at >= own && at - own <= region.own_bytes && bytes <= region.own_bytes - (at - own))
      return {id, at - own};
  }
  return {};
}

std::byte* RegisteredMemory::address(int rank, Place place, std::size_t bytes) const {
  const auto found = regions_.find(place.region);
  if (found == regions_.end()) return nullptr;
  const Region& region = found->second;
  if (place.offset > region.bytes_per_rank || bytes > region.bytes_per_rank - place.offset) return nullptr;
  return region.memory + region.bytes_per_rank * static_cast<std::size_t>(rank) + place.offset;
}

}  // namespace muster::collectives::group
