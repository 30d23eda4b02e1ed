// The messages between the agent and muster-gpus, carried by MessageSocket. muster-gpus is the helper that loads
// NVIDIA's management library and reads the kernel's files about other GPUs. Plain values and functions.
//
// Both sides are of one build, so there are no versions. The helper contains a foreign library, so the agent checks
// its messages as those of a stranger.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpus/kernel_gpus.h"
#include "base/status.h"

namespace muster::agent::inline gpus {

// The agent's question about these GPUs. One GpuReport answers each question, in order.
struct Question {
  bool nvidia = true;         // ask the library about NVIDIA GPUs
  bool files = false;         // read the kernel's files about AMD and Intel GPUs
  bool nvidia_files = false;  // read the kernel's files about NVIDIA GPUs
  std::string root{};         // put before all paths, for tests

  bool operator==(const Question&) const = default;
};

inline constexpr std::size_t kMaxMessage = std::size_t{8} << 20;  // the longest message that either side accepts
inline constexpr std::size_t kMaxGpus = 1024;
inline constexpr std::size_t kMaxMigDevices = 64;     // MIG devices of one GPU
inline constexpr std::size_t kMaxProcesses = 65'536;  // on one GPU
inline constexpr std::size_t kMaxText = 256;          // bytes of a name or of a sentence's part

struct GpuProcess {
  // The pid in the helper's PID namespace, unless foreign_pids is set.
  std::int32_t pid = 0;
  std::optional<std::uint64_t> memory{};  // bytes; nullopt if the driver does not report it

  bool operator==(const GpuProcess&) const = default;
};

// A part of a GPU that its owner has divided (MIG). It is a device by itself.
struct MigDevice {
  std::string uuid{};              // "MIG-…"
  std::string model{};             // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  std::uint64_t memory_total = 0;  // bytes; 0 if not known
  std::uint64_t memory_used = 0;
  std::vector<GpuProcess> processes{};  // those that compute on it, ascending by pid, each once

  bool operator==(const MigDevice&) const = default;
};

struct NvidiaGpu {
  std::string uuid{};              // "GPU-…"
  std::string model{};             // "NVIDIA H200"
  std::string pci{};               // as sysfs names it, "0000:1b:00.0"; empty if not known
  std::uint64_t memory_total = 0;  // bytes; 0 if not known
  std::uint64_t memory_used = 0;
  std::optional<std::int32_t> busy_percent{};  // 0 to 100; nullopt if not reported, as for a divided GPU
  // True if MIG is on. Programs can then use only `parts`, which may be empty.
  bool is_divided = false;
  std::vector<MigDevice> parts{};
  bool knows_processes = false;         // true if the driver reports which processes use it
  std::vector<GpuProcess> processes{};  // those that compute on it or on a part, ascending by pid, each once

  bool operator==(const NvidiaGpu&) const = default;
};

// A GPU of AMD's or Intel's, as the kernel's files show it.
struct FileGpu {
  bool is_intel = false;                       // false means AMD's
  std::int32_t index = 0;                      // among its vendor's GPUs, as kernel_gpus.h counts them
  std::string pci{};                           // "0000:c1:00.0"; parts of an AMD GPU share it; empty if not known
  std::optional<std::uint64_t> memory_used{};  // bytes; nullopt if its driver does not report it
  std::optional<std::int32_t> busy_percent{};  // 0 to 100; nullopt if its driver does not report it
  bool shows_all = false;                      // processes of all users are listed
  bool shows_dead = false;                     // a process is listed until the driver has released its memory
  bool foreign_pids = false;                   // `processes` are numbered by another PID namespace than ours
  std::vector<GpuProcess> processes{};         // those that have memory on it, ascending by pid, each once

  bool operator==(const FileGpu&) const = default;
};

struct GpuReport {
  std::string problem{};  // one sentence without the host's name; empty if there is no problem
  // Like "550.54.15". Empty if the library was not asked or could not be used; then `gpus` is empty.
  std::string driver{};
  std::vector<NvidiaGpu> gpus{};  // those that this user may use, in the library's order (by PCI address)
  bool foreign_pids = false;      // processes of `gpus` are numbered by another PID namespace than ours
  std::vector<FileGpu> others{};  // AMD's, then Intel's, by index
  std::optional<std::vector<NvidiaFile>> nvidia_files{};  // nullopt if they were not asked for

  bool operator==(const GpuReport&) const = default;
};

std::string encode(const Question& question);
base::Result<Question> decode_question(const std::string& payload);

std::string encode(const GpuReport& report);
// INVALID_ARGUMENT: the message is not exactly one whole report, or exceeds one of the bounds above.
base::Result<GpuReport> decode_report(const std::string& payload);

}  // namespace muster::agent::gpus
