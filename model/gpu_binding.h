// Decides which GPUs a rank sees and which cores it may use. It decides both together, so that a rank's cores are near
// its GPU. Pure.
//
// bind_cpus (model/cpu_binding.h) deals the host's cores. Then every rank gets the GPU nearest to its cores. As many
// ranks as possible get one in their own NUMA node, then in their socket, then any. Among equal choices, the lower rank
// gets the earlier GPU. With another --gpu-order than nearest, local rank i gets the i-th GPU of that order.
//
// With more ranks than GPUs, GPU i serves the local ranks i, i + GPUs, …. Scripts that use local_rank modulo the number
// of devices expect this. Those ranks get neighbouring shares, unless depth or list chooses the cores.
//
// --gpus-per-rank N: each rank gets N GPUs by the same rules. With `one`, a rank sees only its own. With `order`, all
// ranks see one list, and rank i's GPUs are the entries i, i + R, … of it. R is the number of local ranks, or of groups
// if ranks share GPUs. So entry i belongs to local rank i here, too.
//
// MIG: CUDA sees one part at a time, so each rank sees only its own. A host's whole GPUs are dealt before parts if they
// are enough for all, unless --gpu-order lists the devices.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/gpu_mask.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

struct RankGpus {
  std::optional<int> index;  // GpuShape::index of its GPU, or of the first one; nullopt if it has none or it is unknown
  std::vector<int> indices;  // GpuShape::index of all its known GPUs; for a part, of the GPU that contains it
  std::optional<int> tile;   // the tile's number within that GPU, if the rank has only one tile
  std::vector<std::string> devices{};  // names of all its devices (model/device_id.h)
  // CUDA_VISIBLE_DEVICES and the like. Empty means that the rank's environment stays unchanged. For AMD, ROCr's mask
  // and the user's masks that count within it.
  std::vector<std::pair<std::string, std::string>> variables;
};

// One entry for each local rank.
struct NodeBinding {
  std::vector<RankBinding> cores;
  std::vector<RankGpus> gpus;
  int visible_gpus =
      0;  // number of GPUs or tiles that were dealt; 0 if the host has none, a mask hides all, or for kNone
  int dealt_ranks = 0;             // for bind_host(): the number of ranks to which devices were dealt
  std::vector<std::string> dealt;  // names of the dealt devices (model/device_id.h), the ranks' own first
  std::string remark;  // one sentence for the user, without the host's name; empty if there is nothing to report
};

// Returns a remark for the user if there are more ranks than GPUs or tiles, and the user did not ask for that. It is
// one sentence without the host's name. Empty if there is nothing to report.
std::string crowd_remark(int ranks, int gpus, const Pinning& pinning);

// Returns how many ranks a host without slots gets. These are as many as bind_node() can give cores and a GPU of their
// own. bind_node() accepts this number and every smaller one. If GPUs are not bound (kNone, and kOrder for Intel), the
// result is the number of GPUs that ranks can see. 0 if they see none. INVALID_ARGUMENT if bind_node() refuses even one
// rank; the message says why.
base::Result<int> most_ranks(const NodeShape& node, const Pinning& pinning, const GpuMasks& job_masks);

// Does the same as most_ranks(), for a job without any settings.
int count_gpus(const NodeShape& node, const GpuMasks& job_masks);

// Returns the variables that make a process see the devices of `list`. With `by_index`, NVIDIA's entries are numbers in
// the order of the PCI bus. `masks` are those in force.
std::vector<std::pair<std::string, std::string>> mask_variables(GpuVendor vendor, const std::string& list,
                                                                std::size_t count, bool by_index,
                                                                const GpuMasks& masks);

// Returns all devices that bind_node() deals to any number of ranks, as device_id(), in the order of --gpu-order (for
// `nearest`, the host's order). It leaves out parts of divided GPUs if whole ones are enough. Empty if there are none,
// and for kNone. INVALID_ARGUMENT as from bind_node(), for errors that do not depend on the number of ranks.
base::Result<std::vector<std::string>> devices_of_job(const NodeShape& node, const Pinning& pinning,
                                                      const GpuMasks& job_masks);

// Deals the host's cores and GPUs to its ranks. model/gpu_choice.h decides which GPUs can be dealt.
//   job_masks  masks of the job's environment; they take precedence over the host's (NodeShape::gpu_masks)
//   allowed    the devices (device_id) that may be dealt; nullptr means all
//   cores      the cores that the ranks have already; nullptr means that this call deals them
// There may be more ranks than GPUs with share_gpu, or if the job requests no GPUs (order, and no --gpus-per-rank).
// INVALID_ARGUMENT: bind_cpus() fails; `tile` finds GPUs but no tile; a mask hides all GPUs of a job that requests
// some; a GPU of --gpu-order does not exist; or there are too few GPUs. The message is one sentence without the host's
// name.
base::Result<NodeBinding> bind_node(const NodeShape& node, int local_size, const Pinning& pinning,
                                    const GpuMasks& job_masks, const std::set<std::string>* allowed = nullptr,
                                    const std::vector<RankBinding>* cores = nullptr);

}  // namespace muster::model
