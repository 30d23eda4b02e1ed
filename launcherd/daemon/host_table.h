// The hosts of a launcherd: its list, what of their slots is used, and which of them are drained. A host that the list
// names once, without slots, has as many as its agent says that it has GPUs. A host under several names is one for what
// jobs have of its cores and GPUs, once its agents have said that it is; slots and drains go by names. Loop thread
// only; no I/O.
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
  // Repeats of a host add their slots; an entry without a number is one then.
  explicit HostTable(const std::vector<model::HostSpec>& list) { replace(list); }

  // Another list: hosts that are in both keep what is used and whether they are drained. Jobs on a host that is gone
  // run on; its slots are nobody's any more.
  void replace(const std::vector<model::HostSpec>& list);

  const std::vector<SlotHost>& slots() const { return hosts_; }
  int total_slots() const;

  // Until the table changes. NOT_FOUND: no such host.
  base::Result<const SlotHost*> find(const std::string& name) const;

  // NOT_FOUND: no such host. What is to be stored.
  base::Result<StoredHost> drained(const std::string& name, const std::string& reason, base::WallTime now) const;
  base::Result<StoredHost> resumed(const std::string& name, base::WallTime now) const;
  // As it was stored; a host that is not in the list is remembered for the case that it comes back.
  void apply(const StoredHost& host);

  void take(const model::Placement& placement);
  void give(const model::Placement& placement);
  // The share of a job that was taken without one.
  void take_share(const std::string& name, const model::HostShare& share);
  void give_share(const std::string& name, const model::HostShare& share);

  // What the host has, and what it is, as its agent says (host_identity(); empty: not known). False: that was known.
  bool learn(const std::string& name, const model::NodeShape& shape, const std::string& identity);
  // Other names of this list for the same host.
  std::vector<std::string> other_names(const std::string& name) const;

  // Its agent cannot be started: no job goes there until it can, and if its slots were to be counted, it has one.
  void set_down(const std::string& name, bool is_down);

  // Hosts whose agents are to be asked for their GPUs, and have neither told nor failed.
  std::vector<model::HostSpec> awaited() const;
  int count_awaited() const;
  // As its agent says. True: the host has other slots now, or takes jobs now; of a host with slots in the list: false.
  bool set_gpus(const std::string& name, int gpus);

  // Without what agents know.
  base::Result<v1::LauncherHost> message(const std::string& name) const;
  v1::LauncherHost message_of(const SlotHost& host) const;

 private:
  SlotHost* known(const std::string& name);
  void count(const model::Placement& placement, int sign);
  void set_slots(SlotHost& host, int slots);
  bool identify(const std::string& name, const std::string& identity);
  // Of all names that are one host with this one: what jobs have of it, and how many slots it has.
  void join_names(const std::string& name);

  std::vector<SlotHost> hosts_;
  std::unordered_map<std::string, std::size_t> index_;  // into hosts_, by name
  std::map<std::string, std::string> drains_;           // host: reason
  std::map<std::string, std::shared_ptr<const model::NodeShape>> shapes_;
  std::map<std::string, HostUse> uses_;  // by the name that jobs have used
  std::map<std::string, std::string> identities_;
  std::map<std::string, std::set<std::string>> names_;  // by identity, also of hosts that are not in the list any more
  std::map<std::string, int> used_;  // ranks, by name, also of hosts that are not in the list any more
  std::map<std::string, int> jobs_;
  std::map<std::string, int> gpu_slots_;  // as agents said, also of hosts that are not in the list any more
};

}  // namespace muster::launcherd::daemon
