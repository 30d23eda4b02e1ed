// Which GPUs a rank sees and which cores it may use: the two are decided together, so that a rank's cores lie near its
// GPU. Pure.
//
// bind_cpus (model/cpu_binding.h) deals the host's cores; then every rank gets the GPU nearest to its own ones: as many
// ranks as possible one in their own NUMA node, then in their socket, then any; among equals the lower rank gets the
// earlier GPU. With more ranks than GPUs, GPU i serves the local ranks i, i + GPUs, …, as scripts that take local_rank
// modulo the number of devices expect; those ranks get neighbouring shares (not where depth or list says which cores a
// rank has). With another --gpu-order than nearest local rank i gets the i-th GPU of that order.
//
// --gpus-per-rank N: the same with N GPUs for each. They are all that it sees (one), or of the list that all see
// (order) numbers i, i + R, …, where R is the number of local ranks, or of the groups that ranks share: so number i is
// local rank i's own here, too. MIG: CUDA sees one part at a time, so each rank sees its own alone; a host's whole GPUs
// go before parts where they are enough for all, unless --gpu-order lists what is to be used.
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
  std::optional<int> index;  // GpuShape::index of its own, or of the first of them; nullopt: none, or not known
  std::vector<int> indices;  // of all its own, as far as they are known; of a part: of its GPU
  std::optional<int> tile;   // in that GPU, where it has that alone
  std::vector<std::string> devices{};  // of all its own what they are called (model/device_id.h)
  // CUDA_VISIBLE_DEVICES and the like; empty: its environment stays as it is. Of AMD's ROCr's mask, and with it those
  // of the user's that count within it.
  std::vector<std::pair<std::string, std::string>> variables;
};

// One entry a local rank.
struct NodeBinding {
  std::vector<RankBinding> cores;
  std::vector<RankGpus> gpus;
  int visible_gpus = 0;            // GPUs, or tiles, that were dealt; 0: none there, none left by a mask, or kNone
  int dealt_ranks = 0;             // of bind_host(): for whom they were dealt
  std::vector<std::string> dealt;  // what those are called (model/device_id.h), first the ranks' own
  std::string remark;  // one sentence without the host's name that the user is to read; empty: there is nothing to say
};

// What the user is to read where more ranks were dealt to than there are GPUs, or tiles, and nobody has asked for that:
// one sentence without the host's name. Empty: nothing.
std::string crowd_remark(int ranks, int gpus, const Pinning& pinning);

// How many ranks a host gets that nobody gives slots: as many as have GPUs of their own there, as bind_node() would
// give them, and cores; bind_node() takes that number and every smaller one. Under kNone, and for Intel's under kOrder,
// where nothing is bound: the GPUs that ranks can see. 0: none to be seen, or hidden. INVALID_ARGUMENT: bind_node()
// refuses a single rank, too; why.
base::Result<int> most_ranks(const NodeShape& node, const Pinning& pinning, const GpuMasks& job_masks);

// The same of a job of which nothing is known.
int count_gpus(const NodeShape& node, const GpuMasks& job_masks);

// What tells a process of so many devices, by this list; `by_index`: NVIDIA's are numbers of the PCI bus. `masks`:
// those in force.
std::vector<std::pair<std::string, std::string>> mask_variables(GpuVendor vendor, const std::string& list,
                                                                std::size_t count, bool by_index,
                                                                const GpuMasks& masks);

// All of which bind_node() deals to however many ranks, as --gpu-order has it (`nearest`: as the host does), as
// device_id(); it leaves out parts of divided GPUs where whole ones are enough. Empty: nothing, as with kNone.
// INVALID_ARGUMENT: as bind_node() says it whatever their number.
base::Result<std::vector<std::string>> devices_of_job(const NodeShape& node, const Pinning& pinning,
                                                      const GpuMasks& job_masks);

// `job_masks`: what the job's own environment says; it goes before the host's (NodeShape::gpu_masks). Which GPUs there
// are to deal: model/gpu_choice.h.
// Ranks may be more than there are GPUs where the GPUs were not asked for (order, and no --gpus-per-rank), or with
// share_gpu. INVALID_ARGUMENT, one sentence without the host's name: bind_cpus() cannot, there are GPUs but no tile for
// `tile`, a mask leaves none of them and they were asked for, a GPU of --gpu-order is not there, or there are too few.
// `allowed`: others than these (device_id) are not dealt; nullptr: all may be. `cores`: what each rank has already;
// nullptr: they are dealt.
base::Result<NodeBinding> bind_node(const NodeShape& node, int local_size, const Pinning& pinning,
                                    const GpuMasks& job_masks, const std::set<std::string>* allowed = nullptr,
                                    const std::vector<RankBinding>* cores = nullptr);

}  // namespace muster::model
