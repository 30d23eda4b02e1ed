// GPUs that a test makes up, behind the interface of NVIDIA's library: for the logic around it. No evidence for a GPU.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "agent/gpus/helper/nvml_api.h"

namespace muster::agent::inline gpus {

struct FakeDevice {
  base::Status handle;  // what asking for it says
  std::string uuid, name, pci;
  base::Result<NvmlMemory> memory = NvmlMemory{};
  base::Result<int> busy = 0;
  base::Result<bool> divided = false;
  std::vector<FakeDevice> parts;
  base::Result<std::vector<GpuProcess>> processes = std::vector<GpuProcess>();
};

class FakeNvml final : public NvmlApi {
 public:
  std::vector<FakeDevice> devices;
  base::Status counting;

  base::Result<std::string> driver_version() override { return std::string("550.54.15"); }
  base::Result<unsigned> count() override {
    if (!counting.ok()) return counting;
    return static_cast<unsigned>(devices.size());
  }
  base::Result<Device> gpu(unsigned index) override { return handle_of(devices.at(index)); }
  base::Result<std::string> uuid(Device device) override {
    const std::string& uuid = at(device).uuid;
    if (uuid.empty()) return base::error(base::Code::kInternal, "nvmlDeviceGetUUID failed: GPU is lost (15)");
    return uuid;
  }
  base::Result<std::string> name(Device device) override { return at(device).name; }
  base::Result<NvmlMemory> memory(Device device) override { return at(device).memory; }
  base::Result<std::string> pci(Device device) override { return at(device).pci; }
  base::Result<bool> is_divided(Device device) override { return at(device).divided; }
  base::Result<unsigned> most_parts(Device device) override { return static_cast<unsigned>(at(device).parts.size()); }
  base::Result<Device> part(Device device, unsigned index) override { return handle_of(at(device).parts.at(index)); }
  base::Result<int> busy_percent(Device device) override { return at(device).busy; }
  base::Result<std::vector<GpuProcess>> processes(Device device) override { return at(device).processes; }

 private:
  static base::Result<Device> handle_of(FakeDevice& device) {
    if (!device.handle.ok()) return device.handle;
    return static_cast<Device>(&device);
  }
  static FakeDevice& at(Device device) { return *static_cast<FakeDevice*>(device); }
};

}  // namespace muster::agent::gpus
