// Finds out how much memory a process of this host could still get.
// Thread: any. Reads a few small files of the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent::inline process {

struct MemorySources {
  std::string meminfo = "/proc/meminfo";
  // find_memory_events() of the cgroup that limits the memory of the ranks. Empty means no limit.
  std::string memory_events = {};
};

// Returns the free memory of the host, or of the cgroup if it has less. Memory that only caches files counts as free.
// nullopt if the kernel does not report it.
std::optional<std::uint64_t> free_memory_kib(const MemorySources& sources);

}  // namespace muster::agent::process
