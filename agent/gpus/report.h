// What muster-gpus, the helper that loads NVIDIA's management library and reads what the kernel shows of others' GPUs,
// tells the agent of the host's GPUs, as messages of MessageSocket. Both are of one build, so there are no versions;
// the helper has a foreign library in itself, so what comes from it is checked as a stranger's. Plain values and
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpus/kernel_gpus.h"
#include "base/status.h"

namespace muster::agent::inline gpus {

// From the agent: look at these GPUs. Every one is answered by one GpuReport, in order.
struct Question {
  bool nvidia = true;         // by the library
  bool files = false;         // AMD's and Intel's, in the kernel's files
  bool nvidia_files = false;  // NVIDIA's in the kernel's files
  std::string root{};         // goes before all paths, for tests

  bool operator==(const Question&) const = default;
};

inline constexpr std::size_t kMaxMessage = std::size_t{8} << 20;  // the longest that either takes
inline constexpr std::size_t kMaxGpus = 1024;
inline constexpr std::size_t kMaxMigDevices = 64;     // of a GPU
inline constexpr std::size_t kMaxProcesses = 65'536;  // on a GPU
inline constexpr std::size_t kMaxText = 256;          // bytes of a name or a sentence's part

struct GpuProcess {
  std::int32_t pid = 0;                   // as the helper's PID namespace numbers it, but for foreign_pids
  std::optional<std::uint64_t> memory{};  // bytes; nullopt: the driver does not tell

  bool operator==(const GpuProcess&) const = default;
};

// A part of a GPU that its owner has divided (MIG), a device by itself.
struct MigDevice {
  std::string uuid{};              // "MIG-…"
  std::string model{};             // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::uint64_t memory_total = 0;  // bytes; 0: not known
  std::uint64_t memory_used = 0;
  std::vector<GpuProcess> processes{};  // that compute on it, ascending by pid, each once

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

// One of AMD's or Intel's, as the kernel's files show it.
struct FileGpu {
  bool is_intel = false;                       // else AMD's
  std::int32_t index = 0;                      // among its vendor's, as kernel_gpus.h counts them
  std::string pci{};                           // "0000:c1:00.0", which parts of AMD's share; empty: not known
  std::optional<std::uint64_t> memory_used{};  // bytes; nullopt: its driver does not tell
  std::optional<std::int32_t> busy_percent{};  // 0 to 100; the same
  bool shows_all = false;                      // whoever's process uses it is listed
  bool shows_dead = false;                     // a process is listed until the driver has released its memory
  bool foreign_pids = false;                   // `processes` are numbered by another PID namespace than ours
  std::vector<GpuProcess> processes{};         // that have memory on it, ascending by pid, each once

  bool operator==(const FileGpu&) const = default;
};

struct GpuReport {
  std::string problem{};          // one sentence without the host's name; empty: none
  std::string driver{};           // "550.54.15"; empty: the library was not asked or could not be used: no `gpus`
  std::vector<NvidiaGpu> gpus{};  // in the library's order (by PCI address), those that this user may use
  bool foreign_pids = false;      // processes of `gpus` are numbered by another PID namespace than ours
  std::vector<FileGpu> others{};  // AMD's, then Intel's, by index
  std::optional<std::vector<NvidiaFile>> nvidia_files{};  // if they were asked for

  bool operator==(const GpuReport&) const = default;
};

std::string encode(const Question& question);
base::Result<Question> decode_question(const std::string& payload);

std::string encode(const GpuReport& report);
// INVALID_ARGUMENT: no whole report, something behind it, or more of anything than the bounds above.
base::Result<GpuReport> decode_report(const std::string& payload);

}  // namespace muster::agent::gpus
