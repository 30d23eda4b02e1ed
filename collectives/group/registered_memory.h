// Memory of this communicator's ranks on one host that all of them have mapped, so that any of them can reduce what
// lies there without a copy. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/group/world.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline group {

// Where a buffer lies, as all ranks of a host understand it. Trivially copyable: travels in a line.
struct Place {
  std::uint32_t region = 0;  // 0: nowhere
  std::uint64_t offset = 0;
};

class RegisteredMemory {
 public:
  RegisteredMemory(World& world, HostTeam& team, std::string communicator)
      : world_(world), team_(team), communicator_(std::move(communicator)) {}
  ~RegisteredMemory();

  // Collective on the host. `bytes` may differ between ranks.
  base::Result<std::byte*> allocate(std::size_t bytes);
  // The others may have it mapped still, and mean it: it is no buffer any more, but stays mapped until the communicator
  // ends, so that all ranks know of the same ones.
  base::Status release(std::byte* memory);
  // Own buffers keep their contents, and are nobody else's from here: a rank that is late in an operation that failed
  // writes to memory that is gone.
  base::Status keep_to_oneself();

  // Region 0: not all of [data, data + bytes) lies in one of this rank's.
  Place find(const void* data, std::size_t bytes) const;
  // Where `place` of local rank `rank` is mapped here; nullptr: there is no such place, or not with so many bytes.
  std::byte* address(int rank, Place place, std::size_t bytes) const;

 private:
  struct Region {
    base::UniqueFd fd;
    std::byte* memory = nullptr;
    std::size_t bytes_per_rank = 0;
    std::size_t own_bytes = 0;
    std::size_t mapped = 0;
    bool is_released = false;
  };
  std::byte* own_part(const Region& region) const {
    return region.memory + region.bytes_per_rank * static_cast<std::size_t>(team_.rank());
  }
  base::Result<base::UniqueFd> share_file(std::uint32_t id, std::size_t bytes);
  base::Status map(Region& region, std::uint32_t id);

  World& world_;
  HostTeam& team_;
  const std::string communicator_;
  std::map<std::uint32_t, Region> regions_;
  std::uint32_t last_ = 0;
};

}  // namespace muster::collectives::group
