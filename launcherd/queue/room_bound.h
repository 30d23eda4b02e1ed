// An upper bound of the ranks that a job could have on a list of hosts now. It costs a fraction of fit(), and most jobs
// of a long queue have no room: fit() would place no job that may_fit() refuses.
//
// For one pass over many jobs. Borrows the hosts: their slots, use and state may change while it lives, and not their
// order, names and shapes. One thread.
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

  // False: fit() finds no place for the job. True: ask fit(), which checks more.
  bool may_fit(const JobNeed& need);

 private:
  // What a host has for jobs of one Devices, beside `use`.
  struct HostDevices {
    bool is_known = false;
    HostUse use;
    DeviceCounts counts;
  };
  // Jobs that could be dealt the same GPUs, however many of them they want.
  struct Devices {
    model::Pinning pinning;
    model::GpuMasks masks;
    std::vector<HostDevices> hosts;  // as hosts_
  };
  struct HostThreads {
    bool is_known = false;
    HostUse use;
    std::map<int, int> free_by_socket;  // hardware threads of cores that no job has
  };
  // Of one job, while its hosts are gone through.
  struct Sum {
    long with_gpus = 0;     // ranks, on hosts with GPUs for it or of which that is not known
    long without_gpus = 0;  // on the others
    long wished = 0;        // slots that it may take if nothing runs
    bool are_gpus_there = false;
  };

  Devices* devices_of(const JobNeed& need);
  const DeviceCounts& counts(const ShareWish& wish, Devices& devices, std::size_t index);
  int most_by_depth(const model::Pinning& pinning, std::size_t index);
  void add(const JobNeed& need, const model::HostSpec* wanted, Devices* devices, std::size_t index, Sum& sum);

  const std::span<const SlotHost> hosts_;
  std::unordered_map<std::string_view, std::size_t> index_;
  std::list<Devices> devices_;
  std::vector<HostThreads> threads_;
};

}  // namespace muster::launcherd::queue
