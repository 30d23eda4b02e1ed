// An emulation of libnvidia-ml.so.1, for tests only: it answers what a file beside it says, "script",
// which a test has written: nothing in it comes from a GPU, and no driver of NVIDIA's is asked. The file is read anew
// at every nvmlDeviceGetCount_v2, so that tests can change it.
//
//   driver 550.54.15
//   gpu BUS UUID TOTAL USED PERCENT NAME…      bytes; PERCENT -: not supported; BUS as 0000:1b:00.0
//   divided                                    the GPU above is in MIG mode
//   part UUID TOTAL USED NAME…                 a MIG device of the GPU above, at the next number
//   gap                                        the next number has no MIG device
//   process PID BYTES                          on the GPU (or part) above; BYTES -: not available
//   closed                                     the GPU above is not this user's
//   fail FUNCTION CODE                         that function returns this code
//   hang FUNCTION                              that function never returns
//   crash FUNCTION                             that function ends the process
//
// Where a file or a pipe "calls" is beside it too, nvmlInit_v2 and nvmlDeviceGetCount_v2 write their names to it.
// MUSTER_NVML_OLD: of drivers that list processes without parts. MUSTER_NVML_BETWEEN: of 535.43, whose _v3 of that list
// has longer entries than before and since; _v2 is as ever.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "agent/gpus/helper/nvml_functions.h"

namespace {

using muster::agent::gpus::nvml::PciInfo;
using muster::agent::gpus::nvml::ProcessInfoV1;
using muster::agent::gpus::nvml::ProcessInfoV2;

struct Process {
  unsigned pid;
  unsigned long long bytes;
};

struct Node {
  std::string bus, uuid, name;
  unsigned long long total = 0, used = 0;
  int percent = -1;
  bool divided = false, closed = false;
  std::vector<Node*> parts;  // nullptr: none at this number
  std::vector<Process> processes;
};

struct Script {
  std::string driver;
  std::deque<Node> nodes;
  std::vector<Node*> gpus;
  std::map<std::string, int> failures;
  std::string hangs;
  std::string crashes;
};

constexpr unsigned long long kNotAvailable = ~0ULL;
Script script;  // NVML's interface has no handle of the library

unsigned long long bytes_of(const std::string& word) {
  return word == "-" ? kNotAvailable : std::stoull(word);
}

void read_line(const std::string& line, Script& into, Node*& last) {
  std::istringstream in(line);
  std::string kind;
  in >> kind;
  if (kind == "driver") in >> into.driver;
  if (kind == "gpu" || kind == "part") {
    Node& node = into.nodes.emplace_back();
    std::string percent = "-";
    if (kind == "gpu") in >> node.bus;
    in >> node.uuid >> node.total >> node.used;
    if (kind == "gpu") in >> percent;
    if (percent != "-") node.percent = std::stoi(percent);
    std::getline(in >> std::ws, node.name);
    if (kind == "gpu") into.gpus.push_back(&node);
    if (kind == "part") into.gpus.back()->parts.push_back(&node);
    last = &node;
  }
  if (kind == "gap") into.gpus.back()->parts.push_back(nullptr);
  if (kind == "divided") into.gpus.back()->divided = true;
  if (kind == "closed") into.gpus.back()->closed = true;
  if (kind == "process") {
    unsigned pid = 0;
    std::string bytes;
    in >> pid >> bytes;
    last->processes.push_back({pid, bytes_of(bytes)});
  }
  if (kind == "fail") {
    std::string function;
    int code = 0;
    in >> function >> code;
    into.failures[function] = code;
  }
  if (kind == "hang") in >> into.hangs;
  if (kind == "crash") in >> into.crashes;
}

std::string beside(const char* name) {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&beside), &self) == 0) return name;
  const std::string path = self.dli_fname;
  return path.substr(0, path.rfind('/') + 1) + name;
}

void note_call(const char* function) {
  const int calls = ::open(beside("calls").c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (calls < 0) return;
  const std::string line = std::string(function) + "\n";
  if (::write(calls, line.data(), line.size()) < 0) ::_exit(1);
  ::close(calls);
}

bool read_script() {
  std::ifstream file(beside("script"));
  script = {};
  Node* last = nullptr;
  for (std::string line; std::getline(file, line);) read_line(line, script, last);
  return !script.driver.empty();
}

// 0: go on.
int refused(const char* function) {
  if (script.hangs == function) {
    while (true) ::pause();
  }
  if (script.crashes == function) ::_exit(1);
  const auto found = script.failures.find(function);
  return found == script.failures.end() ? 0 : found->second;
}

int fill(const std::string& text, char* into, unsigned size) {
  if (text.size() >= size) return 7;
  std::memcpy(into, text.c_str(), text.size() + 1);
  return 0;
}

constexpr int kInvalid = 2;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kTooSmall = 7;
constexpr int kNotLoaded = 9;

}  // namespace

#define MUSTER_REFUSE \
  if (const int code = refused(__func__); code != 0) return code

extern "C" {

int nvmlInit_v2() {
  note_call(__func__);
  if (!read_script()) return kNotLoaded;
  MUSTER_REFUSE;
  return 0;
}

int nvmlShutdown() {
  return 0;
}

const char* nvmlErrorString(int code) {
  switch (code) {
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kNotLoaded:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return fill(script.driver, text, size);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  note_call(__func__);
  if (!read_script()) return kNotLoaded;
  MUSTER_REFUSE;
  *count = static_cast<unsigned>(script.gpus.size());
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  MUSTER_REFUSE;
  if (index >= script.gpus.size()) return kInvalid;
  if (script.gpus[index]->closed) return kNoPermission;
  *device = script.gpus[index];
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  MUSTER_REFUSE;
  return fill(static_cast<Node*>(device)->uuid, text, size);
}

int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  MUSTER_REFUSE;
  return fill(static_cast<Node*>(device)->name, text, size);
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  MUSTER_REFUSE;
  const Node& node = *static_cast<Node*>(device);
  memory[0] = node.total;
  memory[1] = node.total - node.used;
  memory[2] = node.used;
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  MUSTER_REFUSE;
  *info = {};
  const Node& node = *static_cast<Node*>(device);
  unsigned function = 0;
  if (std::sscanf(node.bus.c_str(), "%x:%x:%x.%x", &info->domain, &info->bus, &info->device, &function) != 4)
    return 999;
  std::snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.%X", info->domain, info->bus, info->device,
                function);
  return 0;
}

int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  MUSTER_REFUSE;
  *now = *pending = static_cast<Node*>(device)->divided ? 1 : 0;
  return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  MUSTER_REFUSE;
  *count = static_cast<Node*>(device)->divided ? 7 : 0;
  return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** part) {
  MUSTER_REFUSE;
  const auto& parts = static_cast<Node*>(device)->parts;
  if (index >= parts.size() || parts[index] == nullptr) return kNotFound;
  *part = parts[index];
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  MUSTER_REFUSE;
  const Node& node = *static_cast<Node*>(device);
  if (node.divided || node.percent < 0) return kNotSupported;
  rates[0] = static_cast<unsigned>(node.percent);
  rates[1] = 0;
  return 0;
}

struct LongProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
  unsigned long long protected_memory;
};

}  // extern "C"

namespace {

template <typename Info>
int list_processes(void* device, unsigned* count, Info* into) {
  const auto& processes = static_cast<Node*>(device)->processes;
  const unsigned room = *count;
  *count = static_cast<unsigned>(processes.size());
  if (processes.empty()) return 0;
  if (into == nullptr || room < processes.size()) return kTooSmall;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    into[i] = {};
    into[i].pid = processes[i].pid;
    into[i].used_memory = processes[i].bytes;
  }
  return 0;
}

}  // namespace

extern "C" {

#if defined(MUSTER_NVML_OLD)
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, ProcessInfoV1* into) {
  MUSTER_REFUSE;
  return list_processes(device, count, into);
}
#elif defined(MUSTER_NVML_BETWEEN)
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, ProcessInfoV2* into) {
  MUSTER_REFUSE;
  return list_processes(device, count, into);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, LongProcessInfo* into) {
  MUSTER_REFUSE;
  return list_processes(device, count, into);
}
#else
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfoV2* into) {
  MUSTER_REFUSE;
  return list_processes(device, count, into);
}
#endif

}  // extern "C"
