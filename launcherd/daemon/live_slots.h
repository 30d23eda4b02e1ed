// The slots that a job whose ranks live on has in the table of hosts (docs/adr/0049). The queue gives slots before a
// process uses them, and gets them back when the processes there are gone.
//
// Owner: RunningJob.
// Thread: any. A plain value.
//
// Example:
//   LiveSlots slots(start, false);
//   slots.add(host, share);                      // reserved: held() has them, and listed() offers them to the job
//   slots.shrink(4);                             // listed() lacks them; held() has them until they are free
//   if (job.set_live_hosts(slots.listed()).ok()) slots.mark_sent(slots.listed());
//   slots.update(report);                        // processes have ended, so held() may have fewer slots
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcherd/run/job_runner.h"
#include "model/host_spec.h"
#include "model/job_event.h"
#include "model/placement.h"

namespace muster::launcherd::inline daemon {

class LiveSlots {
 public:
  // With `keeps_failed`, a host on which a process has failed stays listed, because it may be used again after a time
  // (ElasticSpec::cooldown).
  LiveSlots(const model::Placement& start, bool keeps_failed);

  // The slots that the job may use from now on.
  int size() const;
  std::vector<model::HostSpec> listed() const;
  int listed_on(const std::string& host) const;
  // The part of size() on hosts that are not excluded.
  int usable() const;
  // The part of listed() that the job's list has already. To shrink, send it at once, because it has no new host.
  std::vector<model::HostSpec> listed_and_sent() const;
  // All that counts as used: listed(), what the job's list still has, and what processes that must end still use. The
  // numbers of its ranks only count.
  model::Placement held() const;
  bool is_excluded(const std::string& host) const;
  // The most slots that the job uses of the host, because a process on a further slot has failed; nullopt if unlimited.
  // It lasts until the host leaves, or until slots of it are added.
  std::optional<int> limit_on(const std::string& host) const;

  // Adds host.slots slots, which are free. `further` is the job's share of the host for them; nullopt if it is not
  // decided.
  void add(const model::HostSpec& host, const std::optional<model::HostShare>& further);
  // Takes the last slots away until `ranks` are left.
  void shrink(int ranks);
  // Takes slots of excluded hosts away until `ranks` slots are left, or no slot of such a host.
  void shrink_excluded(int ranks);
  // Takes the slots away that the job's list does not have yet.
  void drop_unsent();
  // The job has this list now.
  void mark_sent(const std::vector<model::HostSpec>& list);
  // Takes what the job reports about its hosts. A host that the report lacks has no process and no agent. Without
  // `keeps_failed`, a host on which a process or the host has failed is no longer listed. Slots beyond a host's limit
  // are no longer listed either. An excluded host keeps the slots of all its processes as long as it has an agent.
  // Returns whether listed() has changed.
  bool update(const LiveHosts& report);

  // nullopt if the job lacks the host, or if its share is not decided.
  std::optional<model::HostShare> share_on(const std::string& host) const;
  void set_share(const std::string& host, const std::optional<model::HostShare>& share);
  // Reduces the share of each host that keeps fewer slots to what its ranks use. `bound` has all ranks of the job.
  void narrow(const std::vector<model::BoundRank>& bound);

 private:
  struct Host {
    model::HostSpec spec;
    int slots = 0;  // of the host, all jobs together
    int listed = 0;
    int sent = 0;  // in the list that the job was sent last, so a process may start there
    int processes = 0;
    bool has_agent = false;
    int shared_slots = 0;  // the number of slots that `share` is for
    std::optional<model::HostShare> share{};
    std::optional<int> limit{};

    int held() const;
  };

  const Host* find(const std::string& name) const;
  Host* find(const std::string& name);
  void forget_free_hosts();

  bool keeps_failed_ = false;
  std::vector<Host> hosts_;            // in the order in which the job got them
  std::vector<std::string> excluded_;  // as reported last
};

// Chooses `slots` slots among the offers: those of `first`, then hosts that the job has, then the others. Hosts that
// the job excludes get none, and only `first` goes beyond a host's limit. The result has fewer slots if there are no
// more.
std::vector<model::HostSpec> choose_slots(const LiveSlots& own, int slots, const std::vector<model::HostSpec>& first,
                                          std::vector<model::HostSpec> offers);

}  // namespace muster::launcherd::daemon
