// Tests whether ranks of one host can map each other's device memory by CUDA IPC. The device's attributes do not show
// whether IPC works. It fails between containers with separate process namespaces, in sandboxes, and on some virtual
// GPUs.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "collectives/device/gpu.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::device {

struct IpcTrial {
  std::string why_not;        // empty if it works; else the rank that failed and the reason, the same on all ranks
  bool lacks_memory = false;  // true if memory ran out
  DeviceMemory block;         // the block used for the test; freeing it may wait for the caller's streams
};
// Collective. Each rank maps a small block of the next rank. An error means that the communicator has ended.
base::Result<IpcTrial> try_ipc(Communicator& comm, const std::shared_ptr<const Gpu>& gpu);

}  // namespace muster::collectives::device
