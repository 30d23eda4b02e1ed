// The hosts of a launcherd: its list, how many of their slots are used, and which hosts are drained.
//
// If the list names a host once and without slots, the host gets one slot per GPU that its agent reports. A host may
// have several names. If agents show that names mean the same host, the table counts cores and GPUs once for all these
// names. Slots and drains belong to a single name.
//
// Owner: JobManager.
// Thread: loop thread only; no I/O.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "launcherd/queue/slots.h"
#include "launcherd/store/records.h"
#include "model/host_spec.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

class HostTable {
 public:
  // If the list repeats a host, its slots are added. A repeated entry without a number of slots counts as one slot.
  explicit HostTable(const std::vector<model::HostSpec>& list) { replace(list); }

  // Replaces the list. Hosts in both lists keep their used slots and drains. Jobs on a removed host continue, but its
  // slots are no longer counted.
  void replace(const std::vector<model::HostSpec>& list);

  const std::vector<SlotHost>& slots() const { return hosts_; }
  int total_slots() const;

  // The pointer is valid until the table changes. NOT_FOUND: the list has no such host.
  base::Result<const SlotHost*> find(const std::string& name) const;

  // Both return what must be stored, and change nothing. NOT_FOUND: the list has no such host.
  base::Result<StoredHost> drained(const std::string& name, const std::string& reason, base::WallTime now) const;
  base::Result<StoredHost> resumed(const std::string& name, base::WallTime now) const;
  // Applies a stored drain or resume. Remembers a host that is not in the list, because the host may come back.
  void apply(const StoredHost& host);

  void acquire(const model::Placement& placement);
  void release(const model::Placement& placement);
  // Counts or releases one share of a job whose placement was counted without that share.
  void acquire_share(const std::string& name, const model::HostShare& share);
  void release_share(const std::string& name, const model::HostShare& share);

  // Stores the host's cores, GPUs and identity, as its agent reports them (host_identity(); empty if unknown). Returns
  // false if all of this was known already.
  bool learn(const std::string& name, const model::NodeShape& shape, const std::string& identity);
  // Returns the other names of the same host in the list.
  std::vector<std::string> other_names(const std::string& name) const;

  // Call this when the host's agent cannot be started. No job is placed there until the agent can be started again. If
  // the agent's GPUs decide the slots, the host gets one slot.
  void set_down(const std::string& name, bool is_down);

  // Hosts whose agents must be asked for their GPUs and have neither answered nor failed.
  std::vector<model::HostSpec> awaited() const;
  int count_awaited() const;
  // Stores the number of GPUs that the agent reports. Returns true if the number of slots changes, or if the host
  // starts to accept jobs. Returns false for a host with slots in the list.
  bool set_gpus(const std::string& name, int gpus);

  // Returns the host without the facts that its agent reports.
  base::Result<v1::LauncherHost> message(const std::string& name) const;
  v1::LauncherHost message_of(const SlotHost& host) const;

 private:
  SlotHost* known(const std::string& name);
  void count(const model::Placement& placement, int sign);
  void set_slots(SlotHost& host, int slots);
  bool identify(const std::string& name, const std::string& identity);
  // Updates, for all names of this host, what jobs use of the host and how many slots it has.
  void join_names(const std::string& name);

  std::vector<SlotHost> hosts_;
  std::unordered_map<std::string, std::size_t> index_;  // into hosts_, by name
  std::map<std::string, std::string> drains_;           // host: reason
  std::map<std::string, std::shared_ptr<const model::NodeShape>> shapes_;
  std::map<std::string, HostUse> uses_;  // what jobs use of cores and GPUs, by the host name in their placement
  std::map<std::string, std::string> identities_;
  std::map<std::string, std::set<std::string>> names_;  // by identity; includes hosts that are no longer in the list
  std::map<std::string, int> used_;  // ranks by host name; includes hosts that are no longer in the list
  std::map<std::string, int> jobs_;
  std::map<std::string, int> gpu_slots_;  // as agents reported; includes hosts that are no longer in the list
};

}  // namespace muster::launcherd::daemon
