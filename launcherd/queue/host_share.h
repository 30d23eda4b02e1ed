// Decides which cores and GPUs of a host a job may use, next to other jobs there.
//
// A job of k ranks on a host of s slots gets k of s equal shares of the cores. It gets the GPUs that it asks for. If it
// asks for no number, it gets k of s parts of the GPUs, and at least one GPU a rank while enough are free.
//
// Usually no other job uses these cores and GPUs. The exceptions are:
//    - Cores that users name (--bind-to list, places) are granted even if another job uses them.
//    - If other jobs have left no core, a job gets all cores, or those of its slots, except with --bind-to depth.
//    - If no GPU is free, jobs with --share-gpu share GPUs.
//    - On a host with more slots than GPUs, jobs that ask for no number of GPUs share GPUs, too.
//
// A job waits for GPUs that its user names (places, masks of roles). A GPU is not free if another job may use it under
// another name, for example under CUDA's own number.
//
// Thread: any. Plain values and pure functions.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/gpu_binding.h"
#include "model/host_binding.h"
#include "model/job_spec.h"
#include "model/node_shape.h"
#include "model/pinning.h"
#include "model/placement.h"

namespace muster::launcherd::inline queue {

// The cores and GPUs that the jobs on a host use. A copy shares its content until one of the two changes, because the
// queue copies many hosts.
class HostUse {
 public:
  struct Users {
    int count = 0;
    bool are_open = true;  // true if all users of the device share it
  };
  const std::vector<int>& cpus() const { return content().cpus; }                    // sorted
  const std::map<std::string, Users>& devices() const { return content().devices; }  // by device_id()
  const std::vector<model::HostShare>& shares() const { return content().shares; }

  // True if one is an unchanged copy of the other, or if both are empty.
  bool is_same(const HostUse& other) const { return content_ == other.content_; }

  void add(const model::HostShare& share);
  void remove(const model::HostShare& share);  // `share` was added before

 private:
  struct Content {
    std::vector<model::HostShare> shares;
    std::vector<int> cpus;
    std::map<std::string, Users> devices;

    void count(const model::HostShare& share);
  };
  const Content& content() const;

  std::shared_ptr<const Content> content_;  // nullptr means that nothing is used
};

// The cores and GPUs that a job requests of every host.
struct ShareRequest {
  model::Pinning pinning{};
  model::GpuMasks masks{};                     // from the job's environment
  std::vector<model::RoleMasks> role_masks{};  // from the environments of the job's roles

  // True if the job requests a number of GPUs for each rank. The job then gets no fewer GPUs.
  bool asks_for_gpus() const {
    return pinning.gpu_bind == model::GpuBind::kOne || pinning.gpu_bind == model::GpuBind::kTile ||
           (pinning.gpu_bind != model::GpuBind::kNone && pinning.gpus_per_rank > 0);
  }
  // True if some host may be unable to satisfy the request. The job then starts only on hosts whose cores and GPUs are
  // known.
  bool is_choosy() const {
    return asks_for_gpus() || pinning.bind_to == model::BindTo::kDepth ||
           (pinning.gpu_bind != model::GpuBind::kNone && pinning.gpu_order == model::GpuOrder::kList);
  }
};

// Returns whether other jobs may use the same GPUs. `devices` is the number of GPUs that the job could get there.
bool is_open_share(const ShareRequest& request, std::size_t devices, int slots);

// Returns the GPUs, tiles and parts of the host that the job could get. nullopt on an error. The start of the job
// reports it.
std::optional<std::vector<std::string>> devices_for(const ShareRequest& request, const model::NodeShape& node);
// Counts of the devices that devices_for() returns, given what other jobs use.
struct DeviceCounts {
  std::size_t all = 0;
  std::size_t free = 0;   // no job uses them
  std::size_t open = 0;   // no job uses them, or all their users share them
  bool is_error = false;  // devices_for() returned nullopt
};
DeviceCounts count_devices(const std::vector<std::string>& devices, const model::NodeShape& node, const HostUse& use);
// Returns how many ranks of the job these devices can serve, given what other jobs use. kAnyRanks means no limit.
inline constexpr int kAnyRanks = 1 << 30;
int ranks_for_gpus(const ShareRequest& request, const DeviceCounts& devices, int slots);
int ranks_for_gpus(const ShareRequest& request, const std::vector<std::string>& devices, const model::NodeShape& node,
                   const HostUse& use, int slots);
// Returns the number of devices that no job uses.
int free_devices(const std::vector<std::string>& devices, const model::NodeShape& node, const HostUse& use);

// Decides a job's share of a host. `rank_requests` has one entry for each of its ranks there.
// INVALID_ARGUMENT: the host cannot provide the share next to other jobs; with an empty `use` it never can. The message
// is one sentence without the host's name.
base::Result<model::HostShare> share_of(const ShareRequest& request, const model::NodeShape& node, const HostUse& use,
                                        int slots, std::span<const model::RankRequest> rank_requests);

}  // namespace muster::launcherd::queue
