// One job of launcherd from the moment that it has slots: owns its runner and its output, and turns what the runner
// observes into events of the store. Loop thread only.
//
// The owner's functions are called from within the job's own; the job must not be destroyed there, but be posted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/host_pool.h"
#include "launcherd/daemon/lasting_output.h"
#include "launcherd/daemon/recovery.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/store/records.h"
#include "model/job_state.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

// What all jobs of a launcherd have in common. Borrowed objects outlive the jobs.
struct JobSurroundings {
  base::Loop* loop = nullptr;
  const base::Clock* clock = nullptr;
  LogReader* logs = nullptr;
  HostPool* pool = nullptr;
  std::string state_directory;                           // absolute; no job's files come from there
  std::string jobs_directory;                            // <state>/jobs; exists
  bool more_hosts_come = false;                          // by themselves
  std::function<void(const std::string& line)> on_line;  // for launcherd's own log
};

// Where the output of a job lies.
std::string job_directory(const JobSurroundings& surroundings, const base::JobId& id);
std::string journal_path(const JobSurroundings& surroundings, const base::JobId& id);

// The changes that end a job whose runner is none, or is over: its last state, and JobEnded.
Batch end_of_job(const base::JobId& id, int attempt, model::JobState state, const std::string& reason,
                 const model::JobEnded& ended, base::WallTime now);
Batch end_without_ranks(const base::JobId& id, int attempt, model::JobState state, int exit_code,
                        const std::string& reason, base::WallTime now);

// A job that an earlier launcherd had begun, as the store has it.
struct BegunJob {
  StoredJob job;
  Recovery recovery;
  std::vector<StoredRank> ranks;  // of its newest attempt
};

using ShareSettled = std::function<void(const base::Status&)>;

struct RunningJobOwner {
  std::function<void(Batch)> record;  // what has happened
  std::function<void()> on_ended;     // after the last record
  // Decides on its shares of hosts that had none, as they are now known to be; `done` when the disk has them, which may
  // be when other jobs have ended.
  std::function<void(const std::vector<KnownHost>&, ShareSettled done)> settle_shares{};
};

class RunningJob final : private JobObserver {
 public:
  RunningJob(const JobSurroundings& surroundings, base::JobId id, model::Placement placement, RunningJobOwner owner);
  RunningJob(const JobSurroundings& surroundings, BegunJob begun, RunningJobOwner owner);
  ~RunningJob() override;

  // The event with which it becomes STARTING.
  NewEvent starting(base::WallTime now) const;
  NewRecovery recovery() const;
  // Once both are stored, or for a job that was begun: then it is taken up. The job ends, if need be at once; errors
  // are the reason of its end.
  void start(model::JobSpec job, const proto::LaunchWishes& wishes);
  void start_failed(const base::Status& why);
  // Instead: that it starts cannot be stored, so it ends as one that waits.
  void start_refused(const base::Status& why);

  // `reason`: "killed", "its deadline has passed". Once more: at once. Also before start().
  void stop(StopCause cause, const std::string& reason);
  base::Status signal_ranks(int signo);
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);

  const model::Placement& placement() const { return placement_; }
  // Its share of a host that was not known at its start. The next recovery() has it.
  void set_share(const std::string& host, const std::optional<model::HostShare>& share);
  // Two of its hosts are the same one, and recovery() says so.
  bool has_merged_hosts() const { return !first_of_.empty(); }
  // Its ranks go on when launcherd leaves.
  bool holds() const { return is_held_; }
  model::JobState state() const { return state_; }
  // Its last record is made, and on_ended is told: nothing of it changes any more.
  bool is_over() const { return is_over_; }
  // What the store does not know: hosts, and where ranks wait.
  void describe(v1::Job& job) const;

 private:
  base::Status open_output();
  void make_job(model::JobSpec job, const proto::LaunchWishes& wishes);
  std::shared_ptr<JobAgents> make_agents(PooledJob pooled, int attempt) const;
  void record_event(const model::JobEvent& event, std::optional<JobStep> job_step, std::optional<RankStep> rank_step);
  std::optional<JobStep> step(model::JobTrigger trigger, const std::string& reason);
  void end(model::JobState state, const std::string& reason, const model::JobEnded& ended);
  std::string end_reason(const JobOutcome& outcome) const;
  std::string with_what_is_gone(std::string reason) const;

  void record_merges(const std::vector<KnownHost>& hosts);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override;
  void on_root_cause(const model::RankEnd&) override {}
  void on_bound(const std::vector<model::BoundRank>& ranks) override { bound_ = ranks; }
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override;

  std::string host_of(int rank) const;  // empty: there is no such rank
  struct Steps;                         // what each kind of event changes

  const JobSurroundings& surroundings_;
  const base::JobId id_;
  model::Placement placement_;
  const RunningJobOwner owner_;
  model::JobState state_ = model::JobState::kStarting;
  int attempt_ = 0;
  std::string secret_;         // of the attempt
  std::vector<int> first_of_;  // of the attempt: LaunchOptions::resumed_first_of
  bool is_held_ = true;
  std::optional<BegunJob> begun_;                            // of its first attempt here, if that was begun before
  std::map<int, model::RankState> known_ranks_;              // that the store has of begun_
  std::vector<v1::HostStatus> hosts_;                        // as placement_.hosts
  std::unordered_map<std::string, std::size_t> host_index_;  // by name
  std::vector<std::size_t> host_of_rank_;
  std::vector<model::BoundRank> bound_;  // by rank; empty: not told yet
  std::string stop_reason_;              // not empty: somebody has asked for its end
  StopCause stop_cause_ = StopCause::kNone;
  bool stops_at_once_ = false;  // more than one has
  bool is_over_ = false;

  std::unique_ptr<LastingOutput> sink_;
  std::unique_ptr<RestartingJob> job_;  // last: its threads end before what they use
};

}  // namespace muster::launcherd::daemon
