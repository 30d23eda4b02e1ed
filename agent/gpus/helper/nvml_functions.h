// The functions and structures of NVIDIA's management library that Muster uses, declared after its published
// interface. Their names contain versions. nvml_abi_check.cc compares them with nvml.h, if that is installed.
#pragma once

namespace muster::agent::inline gpus::nvml {

using Device = void*;  // nvmlDevice_t: a GPU or a MIG device

// nvmlMemory_t
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

// nvmlUtilization_t
struct Utilization {
  unsigned gpu;
  unsigned memory;
};

// nvmlProcessInfo_v1_t, and nvmlProcessInfo_v2_t, which the versions _v2 and _v3 of the function fill.
struct ProcessInfoV1 {
  unsigned pid;
  unsigned long long used_memory;
};
struct ProcessInfoV2 {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfoV1) == 16 && sizeof(ProcessInfoV2) == 24);

// X(member, symbol, parameters); each returns an nvmlReturn_t.
#define MUSTER_NVML_FUNCTIONS(X)                                                  \
  X(init, nvmlInit_v2, ())                                                        \
  X(shutdown, nvmlShutdown, ())                                                   \
  X(driver_version, nvmlSystemGetDriverVersion, (char*, unsigned))                \
  X(count, nvmlDeviceGetCount_v2, (unsigned*))                                    \
  X(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*))                   \
  X(uuid, nvmlDeviceGetUUID, (Device, char*, unsigned))                           \
  X(name, nvmlDeviceGetName, (Device, char*, unsigned))                           \
  X(memory, nvmlDeviceGetMemoryInfo, (Device, Memory*))                           \
  X(pci, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))                             \
  X(mig_mode, nvmlDeviceGetMigMode, (Device, unsigned*, unsigned*))               \
  X(most_mig_devices, nvmlDeviceGetMaxMigDeviceCount, (Device, unsigned*))        \
  X(mig_device, nvmlDeviceGetMigDeviceHandleByIndex, (Device, unsigned, Device*)) \
  X(utilization, nvmlDeviceGetUtilizationRates, (Device, Utilization*))

// A pointer is nullptr if this version of the library lacks the function.
struct Functions {
#define MUSTER_NVML_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  MUSTER_NVML_FUNCTIONS(MUSTER_NVML_MEMBER)
#undef MUSTER_NVML_MEMBER
  const char* (*error_string)(int) = nullptr;
  int (*processes_v2)(Device, unsigned*, ProcessInfoV2*) = nullptr;
  int (*processes_v1)(Device, unsigned*, ProcessInfoV1*) = nullptr;
};

}  // namespace muster::agent::gpus::nvml
