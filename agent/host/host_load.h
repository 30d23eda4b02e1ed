// Measures how busy this host's processors and memory are, from /proc/stat and /proc/meminfo.
// gpu_loads.h does this for GPUs, from a report of muster-gpus, because reading files of their drivers may hang.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline host {

// Times of all CPUs since boot, in the kernel's clock ticks.
struct CpuTimes {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
};

// Parses the first line of /proc/stat. nullopt if it is malformed. Waiting for a disk does not count as busy
// (proc(5)).
std::optional<CpuTimes> parse_cpu_times(std::string_view stat);

// Returns the busy share between two readings, 0 to 100. nullopt if no time has passed or the counters went back.
std::optional<int> cpu_percent(const CpuTimes& before, const CpuTimes& now);

// Returns MemTotal - MemAvailable of /proc/meminfo, in MiB. nullopt if one of them is missing.
std::optional<std::int64_t> parse_used_memory(std::string_view meminfo);

// True if the two loads differ so much that a viewer should see it.
bool is_noticeable(const v1::HostLoad& before, const v1::HostLoad& now);

// Reads the host again and again. Each reading describes the time since the last one. Values that cannot be read are
// left out.
// Thread: may be called on the loop, because a reading takes only microseconds.
class HostLoadReader {
 public:
  // `root` is put before all paths.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  v1::HostLoad read();

 private:
  const std::string root_;
  std::optional<CpuTimes> before_;
};

}  // namespace muster::agent::host
