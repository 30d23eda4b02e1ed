// Which GPUs a rank sees and which cores it may use: the two are decided together, so that a rank's cores lie near its
// GPU. Pure.
//
// bind_ranks (model/node_shape.h) cuts the host's cores into shares; then every rank gets the GPU nearest to its share:
// as many ranks as possible one in their own NUMA node, then in their socket, then any; among equals the lower rank
// gets the earlier GPU. With more ranks than GPUs, GPU i serves the local ranks i, i + GPUs, …, as scripts that take
// local_rank modulo the number of devices expect; those ranks get neighbouring shares.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/node_shape.h"

namespace muster::model {

enum class GpuBind {
  kOrder,  // every rank sees the same list, in which the one at index local_rank is its own
  kOne,    // every rank sees its own alone, as device 0
  kNone,   // nothing is set, and shares are dealt without a look at GPUs
};

struct RankGpus {
  std::optional<int> index;  // GpuShape::index of its own; nullopt: none, or not known
  // CUDA_VISIBLE_DEVICES and the like; empty: its environment stays as it is.
  std::vector<std::pair<std::string, std::string>> variables;
};

// One entry a local rank.
struct NodeBinding {
  std::vector<RankBinding> cores;
  std::vector<RankGpus> gpus;
  int visible_gpus = 0;  // that were dealt; 0: none there, none left by a mask, or kNone
};

// How many GPUs a rank can see there: of the vendor that bind_node chooses, within the masks.
int count_gpus(const NodeShape& node, const GpuMasks& job_masks);

// `job_masks`: what the job's own environment says; it goes before the host's (NodeShape::gpu_masks). NVIDIA's GPUs go
// before AMD's where a host has both: the latter is then rather a processor's own. Nothing is bound where HIP's mask is
// set, which counts within ROCr's, nor in order where the mask names MIG devices, of which CUDA sees one at a time.
NodeBinding bind_node(const NodeShape& node, int local_size, BindTo bind_to, GpuBind gpu_bind,
                      const GpuMasks& job_masks);

}  // namespace muster::model
