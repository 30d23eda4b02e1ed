// How busy this host is, from what the kernel shows in files: /proc/stat, /proc/meminfo, and for AMD's GPUs sysfs
// (gpu_busy_percent of the amdgpu driver). Their memory and processes, and all of NVIDIA's: gpu_loads.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent {

// Of all CPUs since boot, in the kernel's clock ticks.
struct CpuTimes {
  std::uint64_t busy = 0;
  std::uint64_t total = 0;
};

// The first line of /proc/stat; nullopt: it is none. Waiting for a disk is not busy (proc(5)).
std::optional<CpuTimes> parse_cpu_times(std::string_view stat);

// Between two readings, 0 to 100; nullopt: no time has passed, or the counters went back.
std::optional<int> cpu_percent(const CpuTimes& before, const CpuTimes& now);

// MemTotal - MemAvailable of /proc/meminfo in MiB; nullopt: one of them is not there.
std::optional<std::int64_t> parse_used_memory(std::string_view meminfo);

// Whether somebody who looks would see another picture.
bool is_noticeable(const v1::HostLoad& before, const v1::HostLoad& now);

// Reads the host again and again; each reading speaks of the time since the one before. What cannot be read is left
// out. Microseconds of work: may be called on the loop.
class HostLoadReader {
 public:
  // `gpus` as the Hello has them. `root` goes before all paths.
  explicit HostLoadReader(std::vector<v1::Gpu> gpus, std::string root = "");

  v1::HostLoad read();

 private:
  const std::vector<v1::Gpu> gpus_;
  const std::string root_;
  std::optional<CpuTimes> before_;
};

}  // namespace muster::agent
