// What a host looks like to the binder, and the binder: which cores a rank may use. Pure; hwloc fills NodeShape in the
// agent.
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

enum class GpuVendor { kNvidia, kAmd };

// What the kernel knows of a GPU; strings are empty and `numa` is -1 where it does not say.
struct GpuShape {
  GpuVendor vendor = GpuVendor::kNvidia;
  int index = 0;        // in the driver's order: among its vendor's GPUs of this host, by PCI address (AMD: KFD node)
  std::string uuid{};   // "GPU-…", as the vendor's mask variable takes it
  std::string model{};  // "NVIDIA H200"
  std::string pci{};    // "0000:1b:00.0"
  int numa = -1;        // numbered as CoreShape::numa
  std::vector<int> cpus{};  // sorted OS numbers of those near it, allowed or not; empty: not known, or all alike

  bool operator==(const GpuShape&) const = default;
};

// Masks over a host's GPUs that its user has set himself; nullopt: not set.
struct GpuMasks {
  std::optional<std::string> cuda{};  // CUDA_VISIBLE_DEVICES
  std::optional<std::string> rocr{};  // ROCR_VISIBLE_DEVICES
  std::optional<std::string> hip{};   // HIP_VISIBLE_DEVICES

  bool operator==(const GpuMasks&) const = default;
};

struct NodeShape {
  std::vector<CoreShape> cores;  // in hwloc's logical order, only allowed ones
  long memory_mib = 0;
  std::vector<GpuShape> gpus;  // by vendor, then index
  GpuMasks gpu_masks;          // of the login there

  bool operator==(const NodeShape&) const = default;
};

enum class BindTo { kShare, kNone, kCore, kNuma, kSocket };

struct RankBinding {
  std::vector<int> cpus;   // sorted OS numbers; empty: not bound
  int physical_cores = 0;  // of the share: OMP_NUM_THREADS; 0: leave it alone
};

// One entry a local rank. kShare: equal, socket-respecting shares of the allowed cores (no rank's share crosses a
// socket while local_size >= sockets); more ranks than cores -> nobody is bound and physical_cores is 1.
std::vector<RankBinding> bind_ranks(const NodeShape& node, int local_size, BindTo bind_to);

// "0-3,8".
std::string format_cpu_list(std::vector<int> cpus);

}  // namespace muster::model
