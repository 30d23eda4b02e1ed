// The host's GPUs as the kernel shows them in files, with the memory of AMD's and Intel's GPUs. Files in sysfs are
// read at once and do not wait for a GPU. `root` is put before all paths. Plain functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent::inline gpus {

// A GPU of NVIDIA's in /proc/driver/nvidia/gpus. Reading there waits for the driver.
struct NvidiaFile {
  std::string pci{};    // "0000:1b:00.0"
  std::string uuid{};   // "GPU-…"; empty if not known yet, as before its first use since boot
  std::string model{};  // "NVIDIA H200"

  bool operator==(const NvidiaFile&) const = default;
};

// Sorted by PCI address, without GPUs that the driver excludes.
std::vector<NvidiaFile> nvidia_gpus(const std::string& root = "");

// A computing node of the KFD driver's topology. A partitioned GPU has several nodes.
struct AmdGpu {
  std::uint64_t gpu_id = 0;  // KFD's files name it by this; 0 if not known
  std::string uuid{};        // "GPU-…"; empty if not known
  std::string model{};       // "aldebaran"
  std::string pci{};         // "0000:c1:00.0"
  // True if no other node is of the same PCI device. Then the device's files describe this node.
  bool is_whole = true;
};

// Sorted by node, the order of ROCm's runtime and of the indices of GpuShape.
std::vector<AmdGpu> amd_gpus(const std::string& root = "");

// A GPU of the PCI class "display controller". All Intel GPUs for servers have this class. A GPU that drives a screen
// is part of a processor and is not listed.
struct IntelGpu {
  std::string card{};  // its folder in sysfs; includes `root`
  std::string pci{};
  int tiles = 1;  // number of its parts
};

// Returns the GPUs, sorted by PCI address.
std::vector<IntelGpu> intel_gpus(const std::string& root = "");

struct GpuMemory {
  std::optional<std::uint64_t> total{};  // bytes; nullopt if the driver does not report it
  std::optional<std::uint64_t> used{};

  bool operator==(const GpuMemory&) const = default;
};

GpuMemory memory_of(const AmdGpu& gpu, const std::string& root = "");
GpuMemory memory_of(const IntelGpu& gpu);

// Reads a file whose lines are a key, `separator` and a value. Empty if it cannot be read.
using Fields = std::map<std::string, std::string, std::less<>>;
Fields read_fields(const std::string& path, char separator);

// Reads a file that holds one decimal number, as in sysfs. nullopt if it holds anything else or cannot be read.
std::optional<std::uint64_t> read_number(const std::string& path);

}  // namespace muster::agent::gpus
