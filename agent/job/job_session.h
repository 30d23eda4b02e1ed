// One job on this host: its warden, its stores, its ranks and their output, from the warden's start to the end of all
// that was contained. hvdrun's agent has one, launcherd's has several at a time.
//
// Owned by the agent; loop thread only. What it says comes through SessionEvents, which must not destroy it. Whatever
// fails in it becomes a message of the job. Destroyed without close(): as if the agent had died, the job's processes
// are killed.
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

// What all sessions of an agent share; outlives them.
struct SessionHost {
  base::Loop& loop;
  const base::Environment login_environment;  // the ground of the ranks' own
  const std::set<base::IpAddress> addresses;  // of this host
  const bool verbose = false;
  const HostGpus gpus{};
  // Children of this process that look at GPUs, or have.
  std::function<std::vector<pid_t>()> gpu_helpers = [] { return std::vector<pid_t>(); };
};

struct SessionOptions {
  std::chrono::milliseconds lease{};
  // Of a launcher that is told by HostEmpty whether any rank has written something; without, no output connection is
  // made.
  bool tells_no_output = false;
  // While a launcher suspends the ranks it may itself be stopped, and sends nothing: no lease then.
  bool suspend_stops_lease = true;
  // The next launcher takes the job up: see OutputSenderConfig.
  bool outlives_launcher = false;
  // Beyond what is kept in memory, so much output of the ranks waits in a file of the session while nobody takes it.
  std::size_t spool_bytes = 0;
  // How the ranks' output travels; asked for once, at Launch.
  std::function<base::Result<OutputSenderConfig>()> output;
};

struct SessionEvents {
  std::function<void(v1::AgentMessage)> send;             // in order, exactly once
  std::function<void(v1::AgentMessage)> send_unnumbered;  // dropped while no launcher listens
  // Once: the launcher has left, or is lost and the ranks have ended. Now it is to be closed.
  std::function<void()> on_done;
  // Children of this process, with all below them, that are not of this job.
  std::function<std::vector<pid_t>()> others;
};

class JobSession {
 public:
  JobSession(const SessionHost& host, Warden warden, SessionOptions options, SessionEvents events);
  ~JobSession();
  JobSession(const JobSession&) = delete;
  JobSession& operator=(const JobSession&) = delete;

  // A message of this job: Prepare, Launch and what follows; others are ignored.
  void handle(const v1::LauncherMessage& message);
  // The launcher was heard of: the lease begins anew.
  void contact(base::MonotonicTime when);
  // To be called several times a second: the lease, and whether the warden still runs.
  void check(base::MonotonicTime now);
  // A stream to a launcher is there, perhaps again: what the one before may not have heard is asked again.
  void stream_is_up();
  // Ends the ranks; `why` is for a log.
  void launcher_lost(const std::string& why);

  bool is_launched() const { return launched_; }
  const Containment& containment() const { return warden_.containment(); }
  const std::string& session_dir() const { return warden_.session_dir(); }
  // Our children of this job: the warden, the reading of stacks, and ranks, which become so when the warden dies.
  std::vector<pid_t> own_children() const;

  // After on_done. Threads end, the warden leaves, the session directory is removed. `done` comes from the loop.
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
  // A task for the loop that does nothing once this object is gone.
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
  std::string session_secret_;  // of this start of the job, for its ranks
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
  std::set<int> spawned_;               // by other ranks: no peers for libmuster's
  std::set<int> running_;               // told to start and not over
  std::set<int> tails_due_;             // exited, stderr tail not sent yet
  std::set<int> with_output_;           // handed to the sender
  std::map<int, pid_t> rank_pids_;      // of those that have started and are not over
  std::string failure_;                 // why this host failed the job
  std::optional<v1::HostEmpty> empty_;  // what JobEmpty said, until it may be sent
  std::optional<bool> was_any_output_;  // known early when there was some, else when all pipes have ended
  base::MonotonicTime last_contact_{};
  base::MonotonicTime lease_renewed_{};
  std::optional<base::MonotonicTime> hangs_since_;  // the warden, while the ranks are to end
  std::map<int, std::string> spawns_due_;           // ranks that the warden has still to start, in this order, and what
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
  std::function<void()> on_closed_;  // set: closing
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
  // Last, so that its thread ends before what it posts to.
  std::unique_ptr<OutputSender> sender_;
};

}  // namespace muster::agent::job
