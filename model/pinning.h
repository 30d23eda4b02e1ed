// The user's request for CPUs and GPUs: which of them each rank of a host may use. The words are those of the options
// (--bind-to, --depth, …) and of muster.v1.JobSpec. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/node_shape.h"

namespace muster::model {

enum class GpuBind {
  kOrder,  // every rank sees the same list; the device at index local_rank is its own
  kOne,    // every rank sees only its own, as device 0
  kTile,   // every rank sees one tile of an Intel GPU
  kNone,   // no variable is set, and shares of cores do not depend on GPUs
};

enum class GpuOrder {
  kNearest,     // the GPU nearest to the rank's cores
  kReverse,     // local rank 0 gets the last one
  kRoundRobin,  // local rank 0 gets the first one; for tiles: the first tiles of all devices before any second one
  kList,        // as Pinning::gpu_list says
};

inline constexpr int kMostThreads = 64;  // most threads of a core
inline constexpr int kMostGpus = 1024;   // most GPUs of a host
inline constexpr int kMostTiles = 16;    // most tiles of a GPU
inline constexpr int kMostParts = 64;    // most parts of a GPU

struct Pinning {
  BindTo bind_to = BindTo::kShare;
  int depth = 1;                              // for kDepth: number of hardware threads of a rank
  std::vector<std::vector<int>> cpu_lists{};  // for kList: by local rank, sorted OS numbers, none empty
  int hyperthreads = 0;               // number of threads of each core that are used, the first ones; 0 if not given
  std::vector<int> reserved_cores{};  // OS number of one thread of each reserved core, which no rank gets
  GpuBind gpu_bind = GpuBind::kOrder;
  GpuOrder gpu_order = GpuOrder::kNearest;
  std::vector<int> gpu_list{};  // for kList: GpuShape::index by local rank, each once; other GPUs are not used
  int gpus_per_rank = 0;        // devices (GPUs, parts or tiles of them) of each rank; 0 if not given, which means one
  bool share_gpu = false;       // several ranks may have the same device
  // The number of Intel GPUs of a host, and of tiles of each, for kernels that show none. 0 if not given.
  int gpus = 0;
  int tiles = 0;

  bool operator==(const Pinning&) const = default;
};

// Each parser reads one word and sets its meaning in `pinning`. INVALID_ARGUMENT, with one sentence that begins with
// the word. The reverse functions return a word that parses to the same value.

// Words: "share", "none", "core", "numa", "socket", "depth", and lists such as "list:0-7:8-15:0,2,4".
base::Status parse_bind_to(std::string_view text, Pinning& pinning);
std::string bind_to_word(const Pinning& pinning);

// The word is a list of CPU numbers, such as "0,52".
base::Status parse_reserved_cores(std::string_view text, Pinning& pinning);

// Words: "nearest", "reverse", "round-robin", and lists such as "3,2,1,0".
base::Status parse_gpu_order(std::string_view text, Pinning& pinning);
std::string gpu_order_word(const Pinning& pinning);

// The word gives the GPUs and the tiles of each, such as "6x2".
base::Status parse_gpu_tiles(std::string_view text, Pinning& pinning);
std::string gpu_tiles_word(const Pinning& pinning);  // empty if not given

}  // namespace muster::model
