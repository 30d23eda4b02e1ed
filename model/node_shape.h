// The binder's view of a host, and the binder, which decides the cores of each rank. Pure; hwloc fills
// NodeShape in the agent.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::model {

struct CoreShape {
  int socket = 0;
  int numa = 0;
  std::vector<int> cpus;  // hardware threads (OS numbers) of this core that the agent is allowed to use; never empty

  bool operator==(const CoreShape&) const = default;
};

bool touches(const CoreShape& core, const std::vector<int>& sorted_cpus);  // true if the core has one of these CPUs

enum class GpuVendor { kNvidia, kAmd, kIntel };

// A part of one of NVIDIA's GPUs that is a device of its own (MIG).
struct GpuPart {
  std::string uuid{};   // "MIG-…", as CUDA's mask variable takes it
  std::string model{};  // "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
  long memory_mib = 0;

  bool operator==(const GpuPart&) const = default;
};

// The facts that kernel and driver report of a GPU. Strings are empty and `numa` is -1 if they report nothing.
struct GpuShape {
  GpuVendor vendor = GpuVendor::kNvidia;
  int index = 0;        // position among its vendor's GPUs of this host, by PCI address (AMD: by KFD node)
  std::string uuid{};   // "GPU-…", as the vendor's mask variable takes it
  std::string model{};  // "NVIDIA H200"
  std::string pci{};    // "0000:1b:00.0"
  int numa = -1;        // in the numbering of CoreShape::numa
  std::vector<int>
      cpus{};           // sorted OS numbers of the near CPUs, allowed or not; empty if unknown or all are equally near
  int tiles = 1;        // for Intel's: the number of parts that count as devices
  long memory_mib = 0;  // 0 if unknown
  bool is_divided = false;  // for NVIDIA's: programs can use only its parts; it may have none
  std::vector<GpuPart> parts{};

  bool operator==(const GpuShape&) const = default;
};

// The user's masks over a host's GPUs, and the variables that say how to read them. nullopt if not set.
struct GpuMasks {
  std::optional<std::string> cuda{};          // CUDA_VISIBLE_DEVICES
  std::optional<std::string> cuda_order{};    // CUDA_DEVICE_ORDER
  std::optional<std::string> rocr{};          // ROCR_VISIBLE_DEVICES
  std::optional<std::string> hip{};           // HIP_VISIBLE_DEVICES
  std::optional<std::string> ordinal{};       // GPU_DEVICE_ORDINAL: for AMD's OpenCL what HIP's mask is for HIP
  std::optional<std::string> ze{};            // ZE_AFFINITY_MASK
  std::optional<std::string> ze_hierarchy{};  // ZE_FLAT_DEVICE_HIERARCHY
  std::optional<std::string> ze_order{};      // ZE_ENABLE_PCI_ID_DEVICE_ORDER

  bool operator==(const GpuMasks&) const = default;
};

struct NodeShape {
  std::vector<CoreShape> cores;  // in hwloc's logical order, only allowed ones
  long memory_mib = 0;
  std::vector<GpuShape> gpus;  // by vendor, then index
  GpuMasks gpu_masks;          // the masks of the host's login

  bool operator==(const NodeShape&) const = default;
};

enum class BindTo { kShare, kNone, kCore, kNuma, kSocket, kDepth, kList };

struct RankBinding {
  std::vector<int> cpus;   // sorted OS numbers; empty if not bound
  int physical_cores = 0;  // number of cores of the share, for OMP_NUM_THREADS; 0 means do not set it
};

// Returns one entry for each local rank. kShare gives equal shares of the allowed cores. No share crosses a socket
// while local_size >= sockets. With more ranks than cores, no rank is bound and physical_cores is 1. bind_cpus()
// (model/cpu_binding.h) handles kDepth and kList.
std::vector<RankBinding> bind_ranks(const NodeShape& node, int local_size, BindTo bind_to);

// Returns text such as "0-3,8".
std::string format_cpu_list(std::vector<int> cpus);

}  // namespace muster::model
