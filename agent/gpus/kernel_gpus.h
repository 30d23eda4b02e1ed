// The host's GPUs as the kernel shows them in files: which there are, and of AMD's and Intel's their memory. What is in
// sysfs is read at once and waits for no GPU. `root` goes before all paths. Plain functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent::inline gpus {

// One of NVIDIA's in /proc/driver/nvidia/gpus, where reading waits for the driver.
struct NvidiaFile {
  std::string pci{};    // "0000:1b:00.0"
  std::string uuid{};   // "GPU-…"; empty: not known yet, as before its first use since boot
  std::string model{};  // "NVIDIA H200"

  bool operator==(const NvidiaFile&) const = default;
};

// By PCI address, without those that the driver leaves out.
std::vector<NvidiaFile> nvidia_gpus(const std::string& root = "");

// A node of the KFD driver's topology that computes; a GPU that is partitioned has several.
struct AmdGpu {
  std::uint64_t gpu_id = 0;  // by which KFD's files name it; 0: not known
  std::string uuid{};        // "GPU-…"; empty: not known
  std::string model{};       // "aldebaran"
  std::string pci{};         // "0000:c1:00.0"
  bool is_whole = true;      // no other node is of the same PCI device: what that device tells is this one's
};

// In the order of the nodes: that of ROCm's runtime, and of the indices of GpuShape.
std::vector<AmdGpu> amd_gpus(const std::string& root = "");

// One of class "display controller", as all made for servers are; one that drives a screen is a processor's own.
struct IntelGpu {
  std::string card{};  // its folder, behind `root`
  std::string pci{};
  int tiles = 1;  // its parts
};

// By PCI address.
std::vector<IntelGpu> intel_gpus(const std::string& root = "");

struct GpuMemory {
  std::optional<std::uint64_t> total{};  // bytes; nullopt: the driver does not tell
  std::optional<std::uint64_t> used{};

  bool operator==(const GpuMemory&) const = default;
};

GpuMemory memory_of(const AmdGpu& gpu, const std::string& root = "");
GpuMemory memory_of(const IntelGpu& gpu);

// Of a file whose lines are a key, `separator` and a value; empty where it cannot be read.
using Fields = std::map<std::string, std::string, std::less<>>;
Fields read_fields(const std::string& path, char separator);

// A file that holds one decimal number, as sysfs has them; nullopt: it does not, or cannot be read.
std::optional<std::uint64_t> read_number(const std::string& path);

}  // namespace muster::agent::gpus
