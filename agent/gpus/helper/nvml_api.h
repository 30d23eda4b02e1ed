// What is asked of NVIDIA's management library (NVML), as a thin interface: NvmlLibrary calls the real one, a test's
// fake answers by itself and is no evidence for a GPU.
//
// Errors: UNIMPLEMENTED: this GPU or this version of the library cannot tell; NOT_FOUND: no MIG device has that number;
// PERMISSION_DENIED: the GPU is not this user's (a cgroup closes it); INTERNAL: all else, with the library's own words.
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/gpus/report.h"
#include "base/status.h"

namespace muster::agent::inline gpus {

struct NvmlMemory {
  std::uint64_t total = 0;  // bytes
  std::uint64_t used = 0;
};

class NvmlApi {
 public:
  using Device = void*;  // a GPU or a MIG device; the library's own

  virtual ~NvmlApi() = default;

  virtual base::Result<std::string> driver_version() = 0;
  virtual base::Result<unsigned> count() = 0;  // of all GPUs, also those that are not ours
  virtual base::Result<Device> gpu(unsigned index) = 0;
  virtual base::Result<std::string> uuid(Device device) = 0;
  virtual base::Result<std::string> name(Device device) = 0;
  virtual base::Result<NvmlMemory> memory(Device device) = 0;
  virtual base::Result<std::string> pci(Device gpu) = 0;  // "0000:1b:00.0"
  virtual base::Result<bool> is_divided(Device gpu) = 0;
  virtual base::Result<unsigned> most_parts(Device gpu) = 0;
  virtual base::Result<Device> part(Device gpu, unsigned index) = 0;
  virtual base::Result<int> busy_percent(Device gpu) = 0;
  virtual base::Result<std::vector<GpuProcess>> processes(Device device) = 0;  // that compute there
};

}  // namespace muster::agent::gpus
