// What of a host a job may use beside the other jobs there: cores and GPUs. Plain values, pure functions.
//
// A job of k ranks on a host of s slots has the cores of k of the s equal shares of its cores, and of its GPUs what it
// asks for, or else k of s parts, at least one for each rank as far as there are as many. None of them is another
// job's, but for these. Cores that users name (--bind-to list, places) are theirs whoever has them; a job to which
// others have left none has all of them, or those of its slots, but not for --bind-to depth. GPUs that users name
// (places, masks of roles) are waited for. GPUs are shared among jobs that want that (--share-gpu), or that have not
// asked for GPUs on a host with more slots than GPUs, when no other is free. What may be another job's GPU by another
// name is not free: a number of CUDA's own.
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

// What the jobs of a host have of it. Copies cost nothing until one of them is changed: the queue looks at many hosts.
class HostUse {
 public:
  struct Users {
    int count = 0;
    bool are_open = true;  // all of them share
  };
  const std::vector<int>& cpus() const { return content().cpus; }                    // sorted
  const std::map<std::string, Users>& devices() const { return content().devices; }  // by device_id()
  const std::vector<model::HostShare>& shares() const { return content().shares; }

  // Nothing has been added to or removed from the one since it was copied from the other, or both are empty.
  bool is_same(const HostUse& other) const { return content_ == other.content_; }

  void add(const model::HostShare& share);
  void remove(const model::HostShare& share);  // one that was added

 private:
  struct Content {
    std::vector<model::HostShare> shares;
    std::vector<int> cpus;
    std::map<std::string, Users> devices;

    void count(const model::HostShare& share);
  };
  const Content& content() const;

  std::shared_ptr<const Content> content_;  // null: nothing
};

// What a job wants of any host.
struct ShareWish {
  model::Pinning pinning{};
  model::GpuMasks masks{};                     // of the job's own environment
  std::vector<model::RoleMasks> role_masks{};  // of its roles' own

  // It has said how many GPUs each rank is to have, and gets no fewer.
  bool asks_for_gpus() const {
    return pinning.gpu_bind == model::GpuBind::kOne || pinning.gpu_bind == model::GpuBind::kTile ||
           (pinning.gpu_bind != model::GpuBind::kNone && pinning.gpus_per_rank > 0);
  }
  // Not every host has it: it is started only where it is known to be had.
  bool is_choosy() const {
    return asks_for_gpus() || pinning.bind_to == model::BindTo::kDepth ||
           (pinning.gpu_bind != model::GpuBind::kNone && pinning.gpu_order == model::GpuOrder::kList);
  }
};

// Whether others may have the same GPUs, of the so many that the job could be dealt.
bool is_open_share(const ShareWish& wish, std::size_t devices, int slots);

// What the job could be dealt of the host's GPUs, tiles and parts; nullopt: its start says what is wrong.
std::optional<std::vector<std::string>> devices_for(const ShareWish& wish, const model::NodeShape& node);
// Of such devices, beside what is in use.
struct DeviceCounts {
  std::size_t all = 0;
  std::size_t free = 0;   // nobody has them
  std::size_t open = 0;   // nobody has them, or only jobs that share them
  bool is_error = false;  // devices_for() is nullopt
};
DeviceCounts count_devices(const std::vector<std::string>& devices, const model::NodeShape& node, const HostUse& use);
// How many ranks of the job these are enough for, beside what is in use; kAnyRanks: for any number.
inline constexpr int kAnyRanks = 1 << 30;
int ranks_for_gpus(const ShareWish& wish, const DeviceCounts& devices, int slots);
int ranks_for_gpus(const ShareWish& wish, const std::vector<std::string>& devices, const model::NodeShape& node,
                   const HostUse& use, int slots);
// Those that nobody has.
int free_devices(const std::vector<std::string>& devices, const model::NodeShape& node, const HostUse& use);

// `wishes`: of each of the job's ranks there. INVALID_ARGUMENT, one sentence without the host's
// name: not beside what is in use. With an empty `use`: never.
base::Result<model::HostShare> share_of(const ShareWish& wish, const model::NodeShape& node, const HostUse& use,
                                        int slots, std::span<const model::RankWish> wishes);

}  // namespace muster::launcherd::queue
