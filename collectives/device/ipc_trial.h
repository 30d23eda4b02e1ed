// Whether ranks of one host can map each other's device memory by CUDA IPC. Attributes of the device do not say so: it
// fails between containers with process namespaces of their own, in sandboxes, and on some virtual GPUs.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "collectives/device/gpu.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::device {

struct IpcTrial {
  std::string why_not;        // empty: it works; else which rank could not, and why; the same on all ranks
  bool lacks_memory = false;  // that is why
  DeviceMemory block;         // what it was tried with. To free it may wait for streams of the caller's
};
// Collective: tries it with a small block, each rank that of the next one. An error has ended the communicator.
base::Result<IpcTrial> try_ipc(Communicator& comm, const std::shared_ptr<const Gpu>& gpu);

}  // namespace muster::collectives::device
