// One job on this host: its warden, its stores, its ranks and their output. It lives from the start of the warden
// until nothing of the job is left on the host. An agent of hvdrun has one session, an agent of launcherd has several
// at a time.
//
// Owner: the agent.
// Thread: the loop thread only.
// Events: the session reports through SessionEvents. A handler must not destroy the session.
// Errors: whatever fails becomes a message of the job to the launcher.
// Destruction without close() kills the job's processes, as if the agent had died.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/commands/stack_reader.h"
#include "agent/gpus/job_gpus.h"
#include "agent/io/output_sender.h"
#include "agent/job/job_stores.h"
#include "agent/job/mpi_ends.h"
#include "agent/job/owner_peers.h"
#include "agent/job/peer_owners.h"
#include "agent/job/rank_inputs.h"
#include "agent/job/rank_pals.h"
#include "agent/job/rank_pmi.h"
#include "agent/job/rank_pmix.h"
#include "agent/job/session_socket.h"
#include "agent/job/stage_service.h"
#include "agent/job/torch_errors.h"
#include "agent/process/warden.h"
#include "base/env.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Facts and services that all sessions of an agent share. It outlives them.
struct SessionHost {
  base::Loop& loop;
  const base::Environment login_environment;  // the ranks' environment is built on this one
  const std::set<base::IpAddress> addresses;  // the addresses of this host
  const bool verbose = false;
  const HostGpus gpus{};
  // Pids of this process's children that query GPUs now, and of killed ones that are not reaped yet.
  std::function<std::vector<pid_t>()> gpu_helpers = [] { return std::vector<pid_t>(); };
};

struct SessionOptions {
  std::chrono::milliseconds lease{};
  // True if the launcher learns from HostEmpty whether any rank has written output.
  // The agent then makes no output connection for a job without output.
  bool tells_no_output = false;
  // True if a suspend suspends the lease, too. A launcher that suspends the ranks may itself be stopped, and then
  // sends nothing.
  bool suspend_stops_lease = true;
  // True if a restarted launcher resumes the job. See OutputSenderConfig.
  bool outlives_launcher = false;
  // Size limit of the session's spool file. It holds output that no launcher takes and that does not fit into memory.
  std::size_t spool_bytes = 0;
  // Says how the ranks' output travels. The session calls it once, at Launch.
  std::function<base::Result<OutputSenderConfig>()> output;
};

struct SessionEvents {
  std::function<void(v1::AgentMessage)> send;             // in order, exactly once
  std::function<void(v1::AgentMessage)> send_unnumbered;  // dropped while no launcher listens
  // Called once, when the launcher has left, or is lost and the ranks have ended. The owner must now call close().
  std::function<void()> on_done;
  // Returns children of this process that are not of this job. Their descendants are not of it either.
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
  // Call this whenever the launcher was heard. The lease begins anew.
  void contact(base::MonotonicTime when);
  // Call this several times a second. It checks the lease, and whether the warden still runs.
  void check(base::MonotonicTime now);
  // Call this when a stream to a launcher is up, also after a cut. Questions that the last launcher may not have
  // received are sent again.
  void stream_is_up();
  // Ends the ranks. `why` goes to the log.
  void launcher_lost(const std::string& why);

  bool is_launched() const { return launched_; }
  const Containment& containment() const { return warden_.containment(); }
  const std::string& session_dir() const { return warden_.session_dir(); }
  // Children of this process that are of this job: the warden and the helpers for stacks and PMIx.
  // Ranks are listed, too, because they become our children if the warden dies.
  std::vector<pid_t> own_children() const;

  // Call this after on_done. Threads end, the warden leaves, and the session directory is removed. The loop calls
  // `done` afterwards.
  void close(std::function<void()> done);
  base::Status close_blocking();

 private:
  void prepare(const v1::Prepare& prepare);
  base::Status prepare_master_port(const v1::Prepare& prepare, v1::Prepared& answer);
  base::Status prepare_more_ports(const v1::Prepare& prepare, v1::Prepared& answer);
  void prepare_owner_port(const v1::Prepare& prepare, v1::Prepared& answer);
  void launch(const v1::Launch& launch);
  std::vector<std::string> names_of_stores() const;
  void add_world(const v1::AddWorld& world);
  void spawn_ranks(const v1::Launch& launch, std::vector<SpawnRequest> requests, const base::Status& made);
  base::Status make_sender();
  void open_session_socket(const v1::Launch& launch);
  void ranks_ended(const v1::RanksEnded& news);
  void kill_rank(int rank);
  void pmix_lost(const std::string& why);
  void stop(std::chrono::milliseconds grace);
  void suspend(bool on);
  void leave();
  void ask_stacks(const v1::StackQuestion& question);
  void done();
  void watch_close();

  void check_warden(base::MonotonicTime now);
  void warden_readable();
  void warden_gone();
  void on_event(RankStarted& started);
  void on_event(RankStartFailed& failed);
  void on_event(RankExited& exited);
  void on_event(JobEmpty& empty);
  void on_event(LeaseExpired& expired);
  void spawn_was_tried(int rank);
  void watch_spawns();
  void spawns_are_slow();
  void rank_is_over(int rank);
  void got_stderr_tail(int rank, const std::string& text);
  void got_output_end(bool was_any);
  void await_gpus(const std::vector<Leftover>& leftovers);
  void give_up_gpus();
  void end_gpu_wait();
  void maybe_host_empty();
  void notice(const std::string& text);
  void log(const base::Status& problem);
  // Posts a task to the loop. The task does nothing once this object is destroyed.
  template <typename Task>
  void post(Task task);

  const SessionHost& host_;
  Warden warden_;
  const SessionOptions options_;
  const SessionEvents events_;
  base::Timer warden_watch_;
  base::UniqueFd held_port_;
  std::vector<base::UniqueFd> more_held_ports_;
  OwnerPeers owner_peers_;
  PeerOwners owners_;
  JobStores stores_;
  std::string session_secret_;  // of this start of the job; its ranks share it
  SessionSocket session_socket_;
  StackReader stacks_;
  StageService stages_;
  RankInputs inputs_;
  MpiEnds mpi_ends_;
  TorchErrors torch_errors_;
  bool wants_error_files_ = false;  // the launcher copies what torch_errors_ finds
  JobGpus gpus_;
  RankPals pals_;
  RankPmi pmi_;
  RankPmix pmix_;
  std::set<int> spawned_;               // ranks that other ranks spawned; libmuster does not count them as peers
  std::set<int> running_;               // ranks that the warden must start or has started, and that are not over
  std::set<int> tails_due_;             // exited ranks whose stderr tail is not sent yet
  std::set<int> with_output_;           // ranks whose output the sender has
  std::map<int, pid_t> rank_pids_;      // of ranks that have started and are not over
  std::string failure_;                 // why this host failed the job; empty if it did not
  std::optional<v1::HostEmpty> empty_;  // made from JobEmpty; kept until it may be sent
  std::optional<bool> was_any_output_;  // true as soon as there was some; false only after all pipes have ended
  base::MonotonicTime last_contact_{};
  base::MonotonicTime lease_renewed_{};
  // Since when the warden does not run, while the ranks must end.
  std::optional<base::MonotonicTime> hangs_since_;
  // Ranks that the warden must still start, in this order, with command and folder.
  std::map<int, std::string> spawns_due_;
  base::Timer spawn_watch_;
  bool launched_ = false;
  bool stopping_ = false;
  bool awaits_no_gpus_ = false;
  bool has_signalled_once_ = false;
  bool suspended_ = false;
  bool lost_ = false;
  bool warden_lost_ = false;
  bool is_over_ = false;
  bool is_done_ = false;
  base::Timer close_deadline_;
  std::function<void()> on_closed_;  // set while the session closes
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  // Last, so that its thread ends before the objects to which it posts.
  std::unique_ptr<OutputSender> sender_;
};

}  // namespace muster::agent::job
