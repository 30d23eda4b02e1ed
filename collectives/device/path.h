// Which way collectives on GPU buffers take, chosen once for a communicator, from what all its ranks have said of
// themselves: the same on all of them. Pure.
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
  kNccl,    // every rank has a GPU of its own, and NCCL
  kIpc,     // ranks of one host: kernels reduce what CUDA IPC maps from the others
  kStaged,  // through pinned memory of the host and the collectives for the processor
};
std::string_view name_of(Path path);  // "nccl", "ipc", "staged": as in MUSTER_DEVICE_PATH
// INVALID_ARGUMENT names the variable. nullopt: "auto" or empty.
base::Result<std::optional<Path>> parse_path(std::string_view name);

// Of one rank. Trivially copyable: ranks send it to each other.
struct Facts {
  DeviceUuid uuid{};              // of its GPU
  std::int32_t nccl_version = 0;  // as NCCL numbers them; 0: it cannot be loaded
  std::int32_t forced = -1;       // a Path that the user has named; -1: none
  std::uint8_t has_kernels = 0;
  std::uint8_t reaches_all = 0;  // its GPU may use the memory of all others'
  std::uint8_t is_ready = 0;     // 0: it has no GPU that it can use
  std::uint8_t has_part = 0;     // of a larger NCCL communicator, on this GPU
  std::uint8_t padding[4] = {};
};
static_assert(sizeof(Facts) == 32);

struct Choice {
  Path path = Path::kStaged;
  std::string
      why;  // it is none before it in the list: "not nccl: ranks share a GPU"; empty: there is none, or it is named
};
// `broken_ipc`: why CUDA IPC cannot be used between these ranks (try_ipc()); empty: it can, or has not been tried.
// FAILED_PRECONDITION: ranks name different paths, or one that they cannot take; says why.
base::Result<Choice> choose_path(std::span<const Facts> ranks, int hosts, std::string_view broken_ipc = "");

}  // namespace muster::collectives::device
