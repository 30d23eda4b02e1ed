// What jobs could be dealt of hosts' GPUs, looked up once for all jobs that wish the same: for one pass over many jobs.
// The shapes of hosts stay as they are while it lives; what is used of them may change.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcherd/queue/host_share.h"

namespace muster::launcherd::inline queue {

class DeviceLists {
 public:
  // devices_for(), by host.
  using ByHost = std::unordered_map<const model::NodeShape*, std::optional<std::vector<std::string>>>;

  // Valid as long as this.
  ByHost& of(const ShareWish& wish);

 private:
  struct Entry {
    model::Pinning pinning;
    model::GpuMasks masks;
    ByHost lists;
  };
  std::list<Entry> entries_;
};

}  // namespace muster::launcherd::queue
