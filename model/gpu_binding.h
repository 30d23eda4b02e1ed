// Which GPUs a rank sees and which cores it may use: the two are decided together, so that a rank's cores lie near its
// GPU. Pure.
//
// bind_cpus (model/cpu_binding.h) deals the host's cores; then every rank gets the GPU nearest to its own ones: as many
// ranks as possible one in their own NUMA node, then in their socket, then any; among equals the lower rank gets the
// earlier GPU. With more ranks than GPUs, GPU i serves the local ranks i, i + GPUs, …, as scripts that take local_rank
// modulo the number of devices expect; those ranks get neighbouring shares (not where depth or list says which cores a
// rank has). With another --gpu-order than nearest local rank i gets the i-th GPU of that order.
//
// --gpus-per-rank N: the same with N GPUs for each: those of local rank i come at i*N, …, i*N + N-1 of the list that
// all see (order), or are all that it sees (one). MIG: CUDA sees one part at a time, so each rank sees its own alone; a
// host's whole GPUs go before parts where they are enough for all, unless --gpu-order lists what is to be used.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

struct RankGpus {
  std::optional<int> index;  // GpuShape::index of its own, or of the first of them; nullopt: none, or not known
  std::vector<int> indices;  // of all its own, as far as they are known; of a part: of its GPU
  std::optional<int> tile;   // in that GPU, where it has that alone
  // CUDA_VISIBLE_DEVICES and the like; empty: its environment stays as it is.
  std::vector<std::pair<std::string, std::string>> variables;
};

// One entry a local rank.
struct NodeBinding {
  std::vector<RankBinding> cores;
  std::vector<RankGpus> gpus;
  int visible_gpus = 0;  // GPUs, or tiles, that were dealt; 0: none there, none left by a mask, or kNone
};

// How many GPUs, or parts of divided ones, a rank can see there: of the vendor that bind_node chooses, within the
// masks.
int count_gpus(const NodeShape& node, const GpuMasks& job_masks);

// All of the node, of whatever vendor; of a GPU that is divided its parts.
int count_all_gpus(const NodeShape& node);

// `job_masks`: what the job's own environment says; it goes before the host's (NodeShape::gpu_masks). NVIDIA's GPUs go
// before AMD's where a host has both: the latter is then rather a processor's own; Intel's are for `one`, where there
// are no others, and for `tile`. Nothing is bound where HIP's mask is set, which counts within ROCr's.
// Ranks may be more than there are GPUs where the GPUs were not asked for (order, and no --gpus-per-rank), or with
// share_gpu. INVALID_ARGUMENT, one sentence without the host's
// name: bind_cpus() cannot, there are GPUs but no tile for `tile`, a GPU of --gpu-order is not there, or there are too
// few.
base::Result<NodeBinding> bind_node(const NodeShape& node, int local_size, const Pinning& pinning,
                                    const GpuMasks& job_masks);

}  // namespace muster::model
