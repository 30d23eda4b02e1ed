// How busy this host's processors and memory are: /proc/stat, /proc/meminfo. Its GPUs: gpu_loads.h; a file of their
// drivers may hang its reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline host {

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
  // `root` goes before all paths.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  v1::HostLoad read();

 private:
  const std::string root_;
  std::optional<CpuTimes> before_;
};

}  // namespace muster::agent::host
