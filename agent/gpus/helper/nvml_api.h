// A thin interface to NVIDIA's management library (NVML). NvmlLibrary calls the real one. A test's fake answers by
// itself and proves nothing about a GPU.
//
// Thread: one.
// Errors: UNIMPLEMENTED: this GPU or this version of the library cannot answer. NOT_FOUND: no MIG device has that
// number.
// PERMISSION_DENIED: a cgroup closes the GPU to this user. INTERNAL: everything else, with the library's own words.
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
  using Device = void*;  // a GPU or a MIG device; a handle of the library

  virtual ~NvmlApi() = default;

  virtual base::Result<std::string> driver_version() = 0;
  virtual base::Result<unsigned> count() = 0;  // number of all GPUs, also of those that are not ours
  virtual base::Result<Device> gpu(unsigned index) = 0;
  virtual base::Result<std::string> uuid(Device device) = 0;
  virtual base::Result<std::string> name(Device device) = 0;
  virtual base::Result<NvmlMemory> memory(Device device) = 0;
  virtual base::Result<std::string> pci(Device gpu) = 0;  // "0000:1b:00.0"
  virtual base::Result<bool> is_divided(Device gpu) = 0;
  virtual base::Result<unsigned> most_parts(Device gpu) = 0;
  virtual base::Result<Device> part(Device gpu, unsigned index) = 0;
  virtual base::Result<int> busy_percent(Device gpu) = 0;
  // Returns the processes that compute on the device.
  virtual base::Result<std::vector<GpuProcess>> processes(Device device) = 0;
};

}  // namespace muster::agent::gpus
