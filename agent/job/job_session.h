// One job on this host: its warden, its stores, its ranks and their output. It lives from the start of the warden until
// nothing of the job is left on the host. An agent of hvdrun has one session. An agent of launcherd may have several.
// Its phases and its actions at each event are a state table (session_phase.h).
//
// Owner: the agent.
// Thread: the loop thread only.
// Events: the session reports through SessionEvents. A handler must not destroy the session.
// Errors: whatever fails becomes a message of the job to the launcher.
// Destruction without close() kills the job's processes, as if the agent had died.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/commands/stack_reader.h"
#include "agent/io/output_sender.h"
#include "agent/job/evidence_collector.h"
#include "agent/job/rank_groups.h"
#include "agent/job/session_end.h"
#include "agent/job/session_host.h"
#include "agent/job/session_lease.h"
#include "agent/job/session_output.h"
#include "agent/job/session_phase.h"
#include "agent/job/session_ranks.h"
#include "agent/job/session_stores.h"
#include "agent/job/session_warden.h"
#include "agent/job/stage_service.h"
#include "agent/process/warden.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

struct SessionOptions {
  std::chrono::milliseconds lease{};
  // True if the launcher learns from HostEmpty whether any rank has written output.
  // The agent then makes no output connection for a job without output.
  bool reports_no_output = false;
  // True if a suspend also stops the lease. A launcher that suspends the ranks may itself be stopped, and then sends
  // nothing.
  bool suspend_stops_lease = true;
  // True if a restarted launcher resumes the job. See OutputSenderConfig.
  bool outlives_launcher = false;
  // Size limit of the session's spool file. The file holds output that no launcher reads and that exceeds the memory.
  std::size_t spool_bytes = 0;
  // Makes the connection for the ranks' output. The session calls it once, at Launch.
  std::function<base::Result<OutputSenderConfig>()> output;
};

struct SessionEvents {
  std::function<void(v1::AgentMessage)> send;             // in order, exactly once
  std::function<void(v1::AgentMessage)> send_unnumbered;  // dropped while no launcher listens
  // Called once, when the launcher has left, or is lost and the ranks have ended. The owner must now call close().
  std::function<void()> on_done;
  // Returns the children of this process that, with all their descendants, do not belong to this job.
  std::function<std::vector<pid_t>()> others;
};

class JobSession {
 public:
  JobSession(const SessionHost& host, Warden warden, SessionOptions options, SessionEvents events);
  ~JobSession();
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  // Handles one message of this job: Prepare, Launch and what follows. Unknown messages are ignored.
  void handle(const v1::LauncherMessage& message);
  // Call this at each message of the launcher. It renews the lease.
  void contact(base::MonotonicTime when);
  // Call this several times a second. Checks the lease, and whether the warden still runs.
  void check(base::MonotonicTime now);
  // Call this when a stream to a launcher is up, also after a cut. Sends again the questions that the last launcher may
  // not have received.
  void stream_is_up();
  void stream_is_cut() { ranks_.commands().stream_is_cut(); }
  // Another launcher has taken the place of the last one, and knows nothing of its commands.
  void launcher_is_new() { ranks_.commands().launcher_is_new(); }
  // Ends the ranks. `why` goes to the log.
  void launcher_lost(const std::string& why);

  bool is_launched() const { return has_launched(phase_); }
  bool is_suspended() const { return lease_.is_suspended(); }
  bool must_end() const { return must_end_; }  // the launcher has left or is lost
  const Containment& containment() const { return warden_->containment(); }
  const std::string& session_dir() const { return warden_->session_dir(); }
  // Returns the children of this process that belong to this job: the warden and the helpers for stacks and PMIx. Ranks
  // are listed, too, because they become our children if the warden dies.
  std::vector<pid_t> own_children() const;

  // Call this after on_done. It ends the threads, lets the warden leave and removes the session directory. Then the
  // loop calls `done`.
  void close(std::function<void()> done);
  base::Status close_blocking();

 private:
  // The data of an event for the action that it causes.
  struct Cause {
    const v1::Launch* launch = nullptr;
    const v1::AddWorld* world = nullptr;
    const JobEmpty* empty = nullptr;
    std::chrono::milliseconds grace{0};
    std::string why = {};
  };

  // Returns `events` with a `send` that gathers starts and ends of ranks.
  SessionEvents grouped(SessionEvents events);

  // Moves to the next phase and carries out the action. Returns false if the table does not allow the event.
  bool on(SessionEvent event, const Cause& cause);
  bool on(SessionEvent event) { return on(event, Cause()); }
  void carry_out(SessionAction action, const Cause& cause);

  base::Status start_output();
  void stop_ranks(std::chrono::milliseconds grace);
  void abandon_ranks(const std::string& why);
  void suspend(bool is_on);
  void refuse(const v1::AddWorld& world) const;
  void ask_stacks(const v1::StackQuestion& question);
  std::vector<std::string> stack_options() const;  // for readings of stacks

  void replace_warden();
  void on_event(JobEmpty& empty);
  void on_event(LeaseExpired& expired);
  template <typename RankEvent>
  void on_event(RankEvent& event) {
    ranks_.on_event(event);
  }
  void check_end();
  void report_empty();
  void remove();

  std::vector<pid_t> helpers() const;
  void notice(const std::string& text) const;
  void notice_if_bad(const base::Status& status) const;
  void log(const base::Status& problem) const;

  const SessionHost& host_;
  const SessionOptions options_;
  RankGroups groups_;
  const SessionEvents events_;
  SessionPhase phase_ = SessionPhase::kPreparing;
  SessionLease lease_;
  SessionStores stores_;
  StackReader stacks_;
  StageService stages_;
  SessionOutput output_;
  SessionWarden warden_;
  SessionRanks ranks_;
  EvidenceCollector evidence_;
  SessionEnd end_;
  bool must_end_ = false;
  std::string failure_;              // why this host failed the job; empty if it did not
  std::function<void()> on_closed_;  // set by close()
  base::Gate gate_;
};

}  // namespace muster::agent::job
