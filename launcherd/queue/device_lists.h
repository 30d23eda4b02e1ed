// The GPUs that jobs could get on hosts. Each list is looked up once for all jobs with the same request.
//
// Owner: one pass over many jobs. The hosts' shapes must not change while it lives. The use of the devices may change.
// Thread: one thread.
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
  // The result of devices_for() for each host.
  using ByHost = std::unordered_map<const model::NodeShape*, std::optional<std::vector<std::string>>>;

  // The reference is valid as long as this object.
  ByHost& of(const ShareRequest& request);

 private:
  struct Entry {
    model::Pinning pinning;
    model::GpuMasks masks;
    ByHost lists;
  };
  std::list<Entry> entries_;
};

}  // namespace muster::launcherd::queue
