// Chooses the path of collectives on GPU buffers. It is chosen once for a communicator, from the facts of all its
// ranks, so it is the same on all of them. The choice is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "collectives/device/cuda_api.h"

namespace muster::collectives::device {

enum class Path : std::int32_t {
  kNccl,    // every rank has NCCL and its own GPU
  kIpc,     // ranks of one host; kernels reduce memory of other ranks that CUDA IPC maps
  kStaged,  // through pinned host memory and the collectives for the processor
};
// Returns "nccl", "ipc" or "staged", as in MUSTER_DEVICE_PATH.
std::string_view name_of(Path path);
// INVALID_ARGUMENT names the variable. nullopt if `name` is "auto" or empty.
base::Result<std::optional<Path>> parse_path(std::string_view name);

// The facts of one rank. Trivially copyable, because ranks send it to each other.
struct Facts {
  DeviceUuid uuid{};              // UUID of the rank's GPU
  std::int32_t nccl_version = 0;  // in NCCL's numbering; 0 if NCCL cannot be loaded
  std::int32_t forced = -1;       // the Path that the user named; -1 if none
  std::uint8_t has_kernels = 0;
  std::uint8_t reaches_all = 0;  // the rank's GPU may use the memory of all other ranks' GPUs
  std::uint8_t is_ready = 0;     // 0 if it has no GPU that it can use
  std::uint8_t has_part = 0;     // it has a part of a larger NCCL communicator on this GPU
  std::uint8_t padding[4] = {};
};
static_assert(sizeof(Facts) == 32);

struct Choice {
  Path path = Path::kStaged;
  // Why the faster paths were not chosen, such as "not nccl: ranks share a GPU". Empty if the path is the fastest one,
  // or if the user named it.
  std::string why;
};
// `broken_ipc` is why CUDA IPC fails between these ranks (try_ipc()). Empty if IPC works or was not tried.
// FAILED_PRECONDITION if ranks name different paths or an unavailable one; the message says why.
base::Result<Choice> choose_path(std::span<const Facts> ranks, int hosts, std::string_view broken_ipc = "");

}  // namespace muster::collectives::device
