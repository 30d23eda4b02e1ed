// Stops and continues the ranks of a job (Ctrl-Z), and waits for the agents' answers.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <functional>

#include "base/loop.h"
#include "launcherd/run/host_roster.h"
#include "launcherd/run/phase_timers.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class Suspension {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  // `hosts` and `timers` are borrowed.
  Suspension(HostRoster& hosts, PhaseTimers& timers, Send send);

  // True if the last order was to stop.
  bool is_on() const { return is_on_; }
  // Sends the order to all launched hosts. Calls `done` when every reachable agent has answered, or after 1 s. A later
  // order drops the `done` of an earlier order. Empty `done` means that the caller does not wait.
  void order(bool on, base::Loop::Task done);
  void answered(JobHost& host);
  // Call this when no more answers can come. Calls the pending `done`.
  void finish();

 private:
  HostRoster& hosts_;
  PhaseTimers& timers_;
  const Send send_;
  bool is_on_ = false;
  base::Loop::Task done_;
};

}  // namespace muster::launcherd::run
