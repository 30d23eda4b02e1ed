// The output of a job's ranks on this host: one OutputSender, and what is still due after ranks have ended.
//
// Owner: the job's session.
// Thread: the loop thread only. The sender's thread posts to the loop.
// The destructor ends the sender's threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "agent/io/output_sender.h"
#include "agent/process/warden_events.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"

namespace muster::agent::inline job {

class SessionOutput {
 public:
  struct Events {
    std::function<void(int rank, const std::string& tail)> on_tail;  // the last stderr lines of a rank that ended
    std::function<void()> on_change;                                 // has_all() may be true now
  };

  SessionOutput(base::Loop& loop, Events events) : loop_(loop), events_(std::move(events)) {}
  SessionOutput(const SessionOutput&) = delete;
  SessionOutput& operator=(const SessionOutput&) = delete;

  // Call it once. With `config.only_if_any`, has_all() is false from then on until had_any() is known.
  base::Status start(OutputSenderConfig config);
  // Ends the threads. Drops output that the launcher has not acknowledged.
  void stop() { sender_.reset(); }

  void rank_started(RankStarted& started, bool has_terminal);  // takes its stdout_fd and stderr_fd
  void rank_exited(int rank);
  // Call this when no rank runs any longer.
  void finish();

  // Calls `done` later, from the loop, with what OutputSender::last_outputs() returns.
  void last_outputs(std::function<void(const std::map<int, LastOutput>&)> done);

  // True if no stderr tail is due, and if it is known whether there was output.
  bool has_all() const { return tails_due_.empty() && !awaits_any_; }
  bool had_any() const { return had_any_; }

 private:
  template <typename Task>
  void post(Task task);

  base::Loop& loop_;
  const Events events_;
  std::set<int> ranks_;      // ranks whose pipes the sender reads
  std::set<int> tails_due_;  // those of ranks_ that have exited, and whose tail has not arrived
  bool awaits_any_ = false;
  bool had_any_ = false;
  base::Gate gate_;  // declared before sender_, whose thread uses the gate
  // Last, so that its thread ends before the members that its callbacks use.
  std::unique_ptr<OutputSender> sender_;
};

}  // namespace muster::agent::job
