// Measures how busy this host's processors, memory and network are, from /proc/stat, /proc/meminfo and /proc/net/dev.
//
// Network: the bytes that interfaces have received and sent. Bridges, bonds, VLANs and veth pairs count the bytes of
// the interfaces below them once more. So only interfaces with a device (/sys/class/net/NAME/device) count. If no
// interface has a device, as in a container, all interfaces except loopback count. The kernel does not count RDMA
// there.
//
// gpu_loads.h does this for GPUs, from a report of muster-gpus, because reading files of their drivers may hang.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
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

// Bytes received plus bytes sent since boot, by the interface's name.
using NetworkBytes = std::map<std::string, std::uint64_t, std::less<>>;

// Parses /proc/net/dev, without loopback. Skips lines that are malformed, and all after the first 4096 interfaces.
NetworkBytes parse_network_bytes(std::string_view net_dev);

// Returns the bytes per second between two readings. An interface counts only if both readings have it and its counter
// has not gone back. nullopt if no time has passed, or if no interface counts.
std::optional<std::int64_t> network_rate(const NetworkBytes& before, const NetworkBytes& now, base::Duration elapsed);

// True if the two loads differ so much that a viewer should see it.
bool is_noticeable(const v1::HostLoad& before, const v1::HostLoad& now);

// Reads the host again and again. Each reading describes the time since the last one. Values that cannot be read are
// left out.
// Thread: may be called on the loop, because a reading takes only microseconds.
class HostLoadReader {
 public:
  // `root` is put before all paths.
  explicit HostLoadReader(std::string root = "") : root_(std::move(root)) {}

  v1::HostLoad read() { return read(base::SystemClock().now()); }
  v1::HostLoad read(base::MonotonicTime now);

 private:
  void add_network(base::MonotonicTime now, v1::HostLoad& load);

  const std::string root_;
  std::optional<CpuTimes> before_;
  NetworkBytes network_before_;
  base::MonotonicTime network_time_{};
};

}  // namespace muster::agent::host
