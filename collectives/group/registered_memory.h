// Memory of this communicator's ranks on one host, which all of them have mapped. So any of these ranks can reduce this
// memory without a copy.
// Thread: one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/group/world.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline group {

// The place of a buffer, in terms that all ranks of a host understand. It is trivially copyable, because it travels in
// shared memory.
struct Place {
  std::uint32_t region = 0;  // 0 if the buffer is not registered
  std::uint64_t offset = 0;
};

class RegisteredMemory {
 public:
  RegisteredMemory(World& world, HostTeam& team, std::string communicator)
      : world_(world), team_(team), communicator_(std::move(communicator)) {}
  ~RegisteredMemory();

  // Collective on the host. `bytes` may differ between ranks.
  base::Result<std::byte*> allocate(std::size_t bytes);
  // Releases a buffer. Its memory stays mapped until the communicator ends, because other ranks may refer to it and all
  // ranks must know the same regions.
  base::Status release(std::byte* memory);
  // Returns a buffer for a holder that may outlive this object: until then its memory stays mapped, shared while the
  // communicator lives. Any thread may drop the holder, which releases the buffer. Null if `memory` is no buffer.
  std::shared_ptr<std::byte> lend(std::byte* memory);
  // Makes this rank's buffers private to this process. They keep their contents. A rank that is late in a failed
  // operation then writes to memory that this process no longer sees.
  base::Status make_private();

  // Returns region 0 if [data, data + bytes) does not lie completely in one of this rank's buffers.
  Place find(const void* data, std::size_t bytes) const;
  // Returns the address at which `place` of local rank `rank` is mapped here. nullptr if that place does not exist or
  // is shorter than `bytes`.
  std::byte* address(int rank, Place place, std::size_t bytes) const;

 private:
  // The state of a lent buffer. Its region and its holder share it, and the last of the two unmaps the buffer.
  struct Loan {
    std::mutex mutex;
    bool is_mapped_here = true;           // guarded by mutex; false after RegisteredMemory has ended
    std::atomic<bool> is_dropped{false};  // by the holder; written under mutex
  };
  struct Region {
    base::UniqueFd fd;
    std::byte* memory = nullptr;
    std::size_t bytes_per_rank = 0;
    std::size_t own_bytes = 0;
    std::size_t mapped = 0;
    bool is_released = false;
    std::shared_ptr<Loan> loan = {};  // null: never lent

    bool is_free() const { return is_released || (loan != nullptr && loan->is_dropped); }
  };
  std::byte* own_part(const Region& region) const {
    return region.memory + region.bytes_per_rank * static_cast<std::size_t>(team_.rank());
  }
  static void drop(Loan& loan, std::byte* memory, std::size_t bytes);
  void unmap(const Region& region) const;
  base::Result<base::UniqueFd> share_file(std::uint32_t id, std::size_t bytes);
  base::Status map(Region& region, std::uint32_t id);

  World& world_;
  HostTeam& team_;
  const std::string communicator_;
  std::map<std::uint32_t, Region> regions_;
  std::uint32_t last_ = 0;
};

}  // namespace muster::collectives::group
