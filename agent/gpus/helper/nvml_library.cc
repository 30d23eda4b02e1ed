// NvmlLibrary, the implementation of NvmlApi that calls the real library. Read load_nvml() and find_functions()
// first.
// Then read call() and status_of(), by which every function calls, and list_processes().

#include "agent/gpus/helper/nvml_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>

#include "agent/gpus/helper/nvml_functions.h"

namespace muster::agent::inline gpus {
namespace {

using base::Code;
using nvml::Device;
using nvml::Functions;
using nvml::ProcessInfoV1;
using nvml::ProcessInfoV2;

// Return codes of nvmlReturn_t.
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kTooSmall = 7;
constexpr int kFunctionNotFound = 13;

constexpr unsigned kTextBytes = 96;  // buffer size of a UUID or a name, NVML_DEVICE_*_V2_BUFFER_SIZE
constexpr unsigned kMigIsOn = 1;     // NVML_DEVICE_MIG_ENABLE
constexpr unsigned kMoreRoom = 16;   // room for processes that start between two calls
constexpr unsigned kMostTries = 4;
constexpr auto kNotAvailable = std::numeric_limits<unsigned long long>::max();  // NVML_VALUE_NOT_AVAILABLE

// Uses the first of the names that the library has.
template <typename Function>
void find(void* library, std::initializer_list<const char*> names, Function& function) {
  for (const char* const name : names) {
    if (function == nullptr) function = reinterpret_cast<Function>(::dlsym(library, name));
  }
}

Functions find_functions(void* library) {
  Functions functions;
#define MUSTER_NVML_FIND(member, symbol, parameters) find(library, {#symbol}, functions.member);
  MUSTER_NVML_FUNCTIONS(MUSTER_NVML_FIND)
#undef MUSTER_NVML_FIND
  find(library, {"nvmlErrorString"}, functions.error_string);
  // Prefer _v2, because its entries are the same in all versions. _v3 of the drivers 535.43 to 535.86 writes longer
  // entries.
  find(library, {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3"},
       functions.processes_v2);
  find(library, {"nvmlDeviceGetComputeRunningProcesses"}, functions.processes_v1);
  return functions;
}

std::string text_of(const char* bytes, std::size_t size) {
  return {bytes, ::strnlen(bytes, size)};
}

class NvmlLibrary final : public NvmlApi {
 public:
  explicit NvmlLibrary(const Functions& functions) : functions_(functions) {}
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;
  // Do not unload the library, because it may have threads and exit handlers of its own.
  ~NvmlLibrary() override {
    if (is_started_ && functions_.shutdown != nullptr) functions_.shutdown();
  }

  base::Status start() {
    MUSTER_RETURN_IF_ERROR(call("nvmlInit_v2", functions_.init));
    is_started_ = true;
    return base::ok_status();
  }

  base::Result<std::string> driver_version() override {
    std::array<char, kTextBytes> text{};
    MUSTER_RETURN_IF_ERROR(
        call("nvmlSystemGetDriverVersion", functions_.driver_version, text.data(), unsigned{kTextBytes}));
    return text_of(text.data(), text.size());
  }

  base::Result<unsigned> count() override {
    unsigned count = 0;
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetCount_v2", functions_.count, &count));
    return count;
  }

  base::Result<Device> gpu(unsigned index) override {
    Device device = nullptr;
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetHandleByIndex_v2", functions_.handle, index, &device));
    return device;
  }

  base::Result<std::string> uuid(Device device) override { return text("nvmlDeviceGetUUID", functions_.uuid, device); }
  base::Result<std::string> name(Device device) override { return text("nvmlDeviceGetName", functions_.name, device); }

  base::Result<NvmlMemory> memory(Device device) override {
    nvml::Memory memory{};
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetMemoryInfo", functions_.memory, device, &memory));
    return NvmlMemory{memory.total, memory.used};
  }

  // The library prints the domain as eight upper-case digits. sysfs uses four lower-case digits. A GPU is always
  // function 0.
  base::Result<std::string> pci(Device gpu) override {
    nvml::PciInfo info{};
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetPciInfo_v3", functions_.pci, gpu, &info));
    return fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
  }

  base::Result<bool> is_divided(Device gpu) override {
    unsigned now = 0;
    unsigned after_reset = 0;
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetMigMode", functions_.mig_mode, gpu, &now, &after_reset));
    return now == kMigIsOn;
  }

  base::Result<unsigned> most_parts(Device gpu) override {
    unsigned count = 0;
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetMaxMigDeviceCount", functions_.most_mig_devices, gpu, &count));
    return count;
  }

  base::Result<Device> part(Device gpu, unsigned index) override {
    Device device = nullptr;
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetMigDeviceHandleByIndex", functions_.mig_device, gpu, index, &device));
    return device;
  }

  base::Result<int> busy_percent(Device gpu) override {
    nvml::Utilization utilization{};
    MUSTER_RETURN_IF_ERROR(call("nvmlDeviceGetUtilizationRates", functions_.utilization, gpu, &utilization));
    return static_cast<int>(utilization.gpu);
  }

  base::Result<std::vector<GpuProcess>> processes(Device device) override {
    if (functions_.processes_v2 != nullptr) return list_processes<ProcessInfoV2>(functions_.processes_v2, device);
    return list_processes<ProcessInfoV1>(functions_.processes_v1, device);
  }

 private:
  template <typename... Parameters, typename... Arguments>
  base::Status call(const char* what, int (*function)(Parameters...), Arguments... arguments) const {
    return status_of(what, function == nullptr ? kFunctionNotFound : function(arguments...));
  }

  base::Status status_of(const char* what, int code) const {
    if (code == kSuccess) return base::ok_status();
    const Code kind = code == kNotSupported || code == kFunctionNotFound ? Code::kUnimplemented
                      : code == kNoPermission                            ? Code::kPermissionDenied
                      : code == kNotFound                                ? Code::kNotFound
                                                                         : Code::kInternal;
    const char* const words = functions_.error_string == nullptr ? nullptr : functions_.error_string(code);
    return base::error(kind, "{} failed: {} ({})", what, words == nullptr ? "no reason" : words, code);
  }

  base::Result<std::string> text(const char* what, int (*function)(Device, char*, unsigned), Device device) const {
    std::array<char, kTextBytes> text{};
    MUSTER_RETURN_IF_ERROR(call(what, function, device, text.data(), unsigned{kTextBytes}));
    return text_of(text.data(), text.size());
  }

  template <typename Info>
  base::Result<std::vector<GpuProcess>> list_processes(int (*function)(Device, unsigned*, Info*), Device device) const {
    constexpr const char* kWhat = "nvmlDeviceGetComputeRunningProcesses";
    std::vector<Info> infos;
    unsigned count = 0;
    int code = function == nullptr ? kFunctionNotFound : function(device, &count, nullptr);
    for (unsigned tries = 0; code == kTooSmall && tries < kMostTries && count < kMaxProcesses; ++tries) {
      count += kMoreRoom;
      infos.resize(count);
      code = function(device, &count, infos.data());
    }
    MUSTER_RETURN_IF_ERROR(status_of(kWhat, code));
    infos.resize(std::min<std::size_t>(count, infos.size()));
    std::vector<GpuProcess> processes;
    for (const Info& info : infos) {
      GpuProcess& process = processes.emplace_back();
      process.pid = static_cast<std::int32_t>(info.pid);
      if (info.used_memory != kNotAvailable) process.memory = info.used_memory;
    }
    return processes;
  }

  const Functions functions_;
  bool is_started_ = false;
};

}  // namespace

base::Result<std::unique_ptr<NvmlApi>> load_nvml(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return base::unavailable("NVIDIA's management library cannot be loaded ({})", why == nullptr ? file : why);
  }
  const Functions functions = find_functions(library);
  if (functions.init == nullptr || functions.count == nullptr || functions.handle == nullptr ||
      functions.uuid == nullptr) {
    return base::unavailable(
        "{} is too old or not NVIDIA's library: it lacks nvmlInit_v2 or a function of that version", file);
  }
  auto nvml = std::make_unique<NvmlLibrary>(functions);
  if (const base::Status started = nvml->start(); !started.ok()) {
    return base::unavailable("NVIDIA's management library does not start: {}", started.message());
  }
  return std::unique_ptr<NvmlApi>(std::move(nvml));
}

}  // namespace muster::agent::gpus
