// What muster-gpus, the helper that loads NVIDIA's management library, tells the agent of the host's GPUs, as messages
// of MessageSocket. Both are of one build, so there are no versions; the helper has a foreign library in itself, so
// what comes from it is checked as a stranger's. Plain values and functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::gpus {

// From the agent: look at the GPUs. Every one is answered by one GpuReport, in order.
inline constexpr const char* kLook = "look";

inline constexpr std::size_t kMaxMessage = std::size_t{8} << 20;  // the longest that either takes
inline constexpr std::size_t kMaxGpus = 1024;
inline constexpr std::size_t kMaxMigDevices = 64;     // of a GPU
inline constexpr std::size_t kMaxProcesses = 65'536;  // on a GPU
inline constexpr std::size_t kMaxText = 256;          // bytes of a name or a sentence's part

struct GpuProcess {
  std::int32_t pid = 0;                   // as the helper's PID namespace numbers it
  std::optional<std::uint64_t> memory{};  // bytes; nullopt: the driver does not tell

  bool operator==(const GpuProcess&) const = default;
};

// A part of a GPU that its owner has divided (MIG), a device by itself.
struct MigDevice {
  std::string uuid{};              // "MIG-…"
  std::string model{};             // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::uint64_t memory_total = 0;  // bytes; 0: not known
  std::uint64_t memory_used = 0;

  bool operator==(const MigDevice&) const = default;
};

struct NvidiaGpu {
  std::string uuid{};              // "GPU-…"
  std::string model{};             // "NVIDIA H200"
  std::string pci{};               // as sysfs names it, "0000:1b:00.0"; empty: not known
  std::uint64_t memory_total = 0;  // bytes; 0: not known
  std::uint64_t memory_used = 0;
  std::optional<std::int32_t> busy_percent{};  // 0 to 100; nullopt: not told, as of a divided GPU
  bool is_divided = false;                     // MIG is on: programs can use `parts` only, of which there may be none
  std::vector<MigDevice> parts{};
  bool knows_processes = false;         // the driver tells who uses it
  std::vector<GpuProcess> processes{};  // that compute on it or on a part, ascending by pid, each once

  bool operator==(const NvidiaGpu&) const = default;
};

struct GpuReport {
  std::string problem{};          // one sentence without the host's name; empty: none
  std::string driver{};           // "550.54.15"; empty: the library could not be used, and there are no GPUs here
  std::vector<NvidiaGpu> gpus{};  // in the library's order (by PCI address), those that this user may use

  bool operator==(const GpuReport&) const = default;
};

std::string encode(const GpuReport& report);
// INVALID_ARGUMENT: no whole report, something behind it, or more of anything than the bounds above.
base::Result<GpuReport> decode_report(const std::string& payload);

}  // namespace muster::agent::gpus
