// Computes an upper bound on the ranks that a job could have on a list of hosts now. If may_fit() returns false, fit()
// would find no place. Most jobs of a long queue have no room, and may_fit() costs a fraction of fit().
//
// Owner: one pass over many jobs. It borrows the hosts. Their slots, use and state may change while it lives; their
// order, names and shapes may not.
// Thread: one thread.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcherd/queue/host_share.h"
#include "launcherd/queue/slots.h"
#include "model/pinning.h"

namespace muster::launcherd::inline queue {

class RoomBound {
 public:
  explicit RoomBound(std::span<const SlotHost> hosts);
  RoomBound(const RoomBound&) = delete;
  RoomBound& operator=(const RoomBound&) = delete;

  // Returns false if fit() would find no place for the job. If it returns true, call fit(), which checks more.
  bool may_fit(const JobNeed& need);

 private:
  // The devices of one host for the jobs of one Devices entry, if other jobs use `use`.
  struct HostDevices {
    bool is_known = false;
    HostUse use;
    DeviceCounts counts;
  };
  // One entry for all jobs that could get the same GPUs, even if they ask for different numbers.
  struct Devices {
    model::Pinning pinning;
    model::GpuMasks masks;
    std::vector<HostDevices> hosts;  // same order as hosts_
  };
  struct HostThreads {
    bool is_known = false;
    HostUse use;
    std::map<int, int> free_by_socket;  // number of hardware threads on unused cores
  };
  // Sums for one job while its hosts are visited.
  struct Sum {
    long with_gpus = 0;     // ranks on hosts that have GPUs for the job or are not known yet
    long without_gpus = 0;  // ranks on the other hosts
    long max_slots = 0;     // slots that the job could use if nothing ran
    bool has_gpu_hosts = false;
  };

  Devices* devices_of(const JobNeed& need);
  const DeviceCounts& counts(const ShareRequest& request, Devices& devices, std::size_t index);
  int most_by_depth(const model::Pinning& pinning, std::size_t index);
  void add(const JobNeed& need, const model::HostSpec* wanted, Devices* devices, std::size_t index, Sum& sum);

  const std::span<const SlotHost> hosts_;
  std::unordered_map<std::string_view, std::size_t> index_;
  std::list<Devices> devices_;
  std::vector<HostThreads> threads_;
};

}  // namespace muster::launcherd::queue
