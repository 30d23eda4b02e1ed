// The ranks of a job on this host. Starts them through the warden and connects their servers, input and output. Reports
// to the launcher how they start and end.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Errors: a rank that cannot start is reported as RankStartFailed. Everything else becomes a notice for the user.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/gpus/job_gpus.h"
#include "agent/job/arrival_report.h"
#include "agent/job/live_ranks.h"
#include "agent/job/progress_file.h"
#include "agent/job/rank_commands.h"
#include "agent/job/rank_inputs.h"
#include "agent/job/rank_servers.h"
#include "agent/job/rank_table.h"
#include "agent/job/rank_watchdog.h"
#include "agent/job/running_ranks.h"
#include "agent/job/session_host.h"
#include "agent/job/session_output.h"
#include "agent/job/session_stores.h"
#include "agent/job/spawn_watch.h"
#include "agent/job/staged_environment.h"
#include "agent/job/torch_errors.h"
#include "agent/job/world_watch.h"
#include "agent/process/warden.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_notifier.h"

namespace muster::agent::inline job {

class SessionRanks {
 public:
  struct Events {
    std::function<void(v1::AgentMessage)> send;                  // to the launcher
    std::function<void(v1::AgentMessage)> send_unnumbered = {};  // dropped while no launcher listens
    std::function<void(const std::string&)> on_notice;           // a sentence for the user
    std::function<void(const base::Status&)> on_problem;         // for the log: one sentence
    std::function<void()> on_all_over;                           // each rank has ended or could not start
    std::function<void(const std::string& why)> on_lost;         // see RankPmix::Events
    // Reads the stacks of these pids, by rank. The answers go to RankWatchdog.
    std::function<void(std::uint64_t id, const std::map<int, pid_t>& pids)> read_stacks = {};
  };

  // All arguments outlive this object.
  SessionRanks(const SessionHost& host, Warden& warden, SessionStores& stores, SessionOutput& output, Events events);
  SessionRanks(const SessionRanks&) = delete;
  SessionRanks& operator=(const SessionRanks&) = delete;

  // Starts the ranks of Launch. If `made` is an error, reports each rank as one that could not start.
  void launch(const v1::Launch& launch, base::Status made);
  // Starts the ranks of a world that other ranks have spawned.
  void add_world(const v1::AddWorld& world);
  // Gives the processes of a job whose ranks change their numbers in the next generation, and answers those that wait.
  void begin_generation(const v1::BeginGeneration& order);
  // Ends these processes: SIGTERM, then SIGKILL.
  void end_some(const v1::EndRanks& order);
  // Sends a notice to a process, and the result to the launcher.
  void notify(const v1::NotifyWorker& order);
  // These come from the servers of this host's ranks (LiveKeys::Events).
  void checked_in(int local_rank);
  void put_first(int rank);
  // The ranks of this generation have ended their first collective (JobStores::Events).
  void first_collective(int generation) const;

  void on_event(RankStarted& started);
  void on_event(RankStartFailed& failed);
  void on_event(RankExited& exited);
  // Reports all running ranks as lost. Call it when the warden can no longer report how they end.
  void lose_all();

  void signal_all(const v1::SignalRanks& order);
  void kill_spawned(const v1::KillRanks& order);

  bool are_all_over() const { return running_.are_all_over(); }
  const std::map<int, pid_t>& pids() const { return running_.pids(); }
  // Returns what the servers of this host have not answered to the rank.
  std::optional<Awaited> awaited(int rank) const { return servers_.awaited(rank, live_.rank_of(rank).value_or(rank)); }
  JobGpus& gpus() { return gpus_; }
  RankInputs& inputs() { return inputs_; }
  RankCommands& commands() { return commands_; }
  RankServers& servers() { return servers_; }
  RankWatchdog& watchdog() { return watchdog_; }
  const RankServers& servers() const { return servers_; }

 private:
  void spawn(const v1::Launch& launch, std::vector<SpawnRequest> requests, base::Status made);
  void add_live(const v1::Launch& launch);
  void was_tried(int rank);
  void is_over(int rank);
  void kill(int rank);
  void read_stacks(std::uint64_t id, const std::set<int>& ranks);
  void watch_worlds(const std::vector<SpawnRequest>& requests);
  void watch_sizes();
  std::vector<WatchedRank> watched_ranks() const;
  void report_end(const model::RankEnd& end);
  void notified(const v1::NotifyWorker& order, const base::Status& result) const;
  void notice_if_bad(const base::Status& status) const;

  const SessionHost& host_;
  Warden& warden_;
  SessionStores& stores_;
  SessionOutput& output_;
  const Events events_;
  const base::SystemClock clock_;
  RunningRanks running_;
  LiveRanks live_;
  rendezvous::HorovodNotifier notifier_;
  std::map<int, base::Timer> kills_;  // by rank that end_some() has ended
  SpawnWatch spawn_watch_;
  StagedEnvironment environment_;
  RankTable rank_table_;
  RankServers servers_;
  RankInputs inputs_;
  RankCommands commands_;
  TorchErrors torch_errors_;
  RankWatchdog watchdog_;
  JobGpus gpus_;
  ProgressFile progress_file_;
  std::map<int, int> sizes_;  // of the job, as each rank got it; without spawned ranks
  WorldWatch world_watch_;
  ArrivalReport arrival_report_;
  bool wants_error_files_ = false;   // the launcher copies what torch_errors_ finds
  bool has_signalled_once_ = false;  // see SignalRanks.once
};

}  // namespace muster::agent::job
