// The hosts of a job: finds them by agent, by place and by address, and reports whether all hosts have taken a step.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "launcherd/plan/launch_plan.h"
#include "launcherd/run/host_phase.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

struct JobHost {
  int agent = 0;     // index in the roster; never changes
  int placed = 0;    // index in Placement::hosts; -1 if the job does not need the host
  std::string name;  // for messages
  HostState phase;
  HostFacts facts;
  std::string agent_link;  // "dial" or "ssh"
  // Only for jobs resumed after a launcherd restart: messages that the runner has not processed yet (job_agents.h).
  std::vector<v1::AgentMessage> history;
  bool has_launched = false;     // true if an earlier launcherd sent the agent its ranks
  std::vector<int> ranks;        // the ranks that the launcher sent to the agent
  int started = 0;               // ranks that have started on the host
  bool has_tried_all = false;    // the agent has tried to start each of its ranks
  bool output_complete = false;  // all output was read, perhaps before the ranks were gone
  bool has_stream = false;
  bool is_reserve = false;       // has no ranks, but may take the place of a host that is not up (JobSpec::min_hosts)
  bool is_left_out = false;      // the job starts without the host
  int suspends_due = 0;          // answers to Suspend that are missing; one may arrive after the next Suspend was sent
  bool has_misreported = false;  // the agent reported on ranks that it does not have; the user was warned
  // Only for hosts that join a job that runs (job_joins.cc).
  bool joins = false;
  bool is_announced = true;  // the observer got HostUp
};

class HostRoster {
 public:
  JobHost& add(const std::string& name, bool is_local);
  JobHost& at(int agent) { return hosts_[static_cast<std::size_t>(agent)]; }
  const JobHost& at(int agent) const { return hosts_[static_cast<std::size_t>(agent)]; }
  std::size_t size() const { return hosts_.size(); }
  auto begin() { return hosts_.begin(); }
  auto end() { return hosts_.end(); }
  auto begin() const { return hosts_.begin(); }
  auto end() const { return hosts_.end(); }

  // `first_of` has for each agent the first agent on the same host. Empty if not known yet.
  void set_first_of(std::vector<int> first_of) { first_of_ = std::move(first_of); }
  bool has_first_of() const { return !first_of_.empty(); }
  const std::vector<int>& first_of() const { return first_of_; }
  bool is_first(const JobHost& host) const { return first_of_[static_cast<std::size_t>(host.agent)] == host.agent; }
  JobHost& first_of(const JobHost& host) { return at(first_of_[static_cast<std::size_t>(host.agent)]); }

  // Each of the three functions returns whether every host has taken its step. A host never takes a step back, so each
  // call continues where the last one ended. The runner calls after every message, so a full scan would cost the square
  // of the number of hosts. A host that is added later must take the steps, too.
  bool are_up();
  bool are_prepared();
  bool are_without_processes();
  // Records that the agent has tried to start its ranks. Returns true once, for the last of all agents.
  bool note_tried(JobHost& host);

  bool is_any_waiting() const;
  bool is_any_in(HostPhase phase) const;
  bool is_any_launched_before() const;                 // JobHost::has_launched
  HostFactsList facts() const;                         // by agent
  std::vector<JobHost*> by_placed(std::size_t count);  // nullptr for a place without a host
  // Returns the agents of all hosts with this address. Private networks may use one address on several hosts.
  std::vector<int> owners_of(const std::string& address) const;

 private:
  template <typename Predicate>
  bool have_all(std::size_t& first_without, Predicate has) const {
    while (first_without < hosts_.size() && has(hosts_[first_without])) ++first_without;
    return first_without == hosts_.size();
  }

  std::deque<JobHost> hosts_;  // a deque, because hosts may be added while others are in use
  std::vector<int> first_of_;
  // Each is the agent of the first host that has not taken a step: to be up, to be prepared, to have tried to start all
  // its ranks, to be without processes.
  std::size_t first_not_up_ = 0;
  std::size_t first_not_prepared_ = 0;
  std::size_t first_not_tried_ = 0;
  std::size_t first_not_gone_ = 0;
};

}  // namespace muster::launcherd::run
