// One job of launcherd from the moment that it has slots. It owns the job's runner and output, and turns what the
// runner reports into events for the store.
//
// Owner: JobManager.
// Thread: loop thread only. The job calls the owner's functions from within its own. The owner must not destroy the job
// there; it posts instead.
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
#include "launcherd/daemon/journal_output.h"
#include "launcherd/daemon/recovery.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/store/records.h"
#include "model/job_state.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

// The objects and settings that all jobs of a launcherd share. Borrowed objects must outlive the jobs.
struct JobSurroundings {
  base::Loop* loop = nullptr;
  const base::Clock* clock = nullptr;
  LogReader* logs = nullptr;
  HostPool* pool = nullptr;
  std::string state_directory;                           // absolute; files from there are never staged
  std::string jobs_directory;                            // <state>/jobs; exists
  bool more_hosts_may_join = false;                      // agents of more hosts may connect by themselves
  std::function<void(const std::string& line)> on_line;  // for launcherd's own log
};

// The folder and the file that hold the output of a job.
std::string job_directory(const JobSurroundings& surroundings, const base::JobId& id);
std::string journal_path(const JobSurroundings& surroundings, const base::JobId& id);

// The changes that end a job without a runner, or whose runner has finished: its last state, and JobEnded.
Batch end_of_job(const base::JobId& id, int attempt, model::JobState state, const std::string& reason,
                 const model::JobEnded& ended, base::WallTime now);
Batch end_without_ranks(const base::JobId& id, int attempt, model::JobState state, int exit_code,
                        const std::string& reason, base::WallTime now);

// A job that an earlier launcherd began, as the store has it.
struct ResumedJob {
  StoredJob job;
  Recovery recovery;
  std::vector<StoredRank> ranks;  // ranks of its newest attempt
};

using ShareSettled = std::function<void(const base::Status&)>;

struct RunningJobOwner {
  std::function<void(Batch)> record;  // stores what has happened
  std::function<void()> on_ended;     // called after the last record
  // Decides the job's shares of hosts, now that what they have is known. `done` runs when the disk has them. It may
  // have to wait until other jobs end.
  std::function<void(const std::vector<KnownHost>&, ShareSettled done)> settle_shares{};
};

class RunningJob final : private JobObserver {
 public:
  RunningJob(const JobSurroundings& surroundings, base::JobId id, model::Placement placement, RunningJobOwner owner);
  RunningJob(const JobSurroundings& surroundings, ResumedJob resumed, RunningJobOwner owner);
  ~RunningJob() override;

  // The event that changes its state to STARTING.
  NewEvent starting(base::WallTime now) const;
  NewRecovery recovery() const;
  // Starts the job once both are stored, or resumes a job that an earlier launcherd began. An error ends the job,
  // perhaps within this call, and becomes the reason of its end.
  void start(model::JobSpec job, const proto::LaunchRequests& wishes);
  void start_failed(const base::Status& why);
  // Call it instead if the start cannot be stored. The job then ends like a waiting one.
  void start_refused(const base::Status& why);

  // Stops the job. `reason` is for example "killed" or "its deadline has passed". A second call kills at once. It may
  // be called before start().
  void stop(StopCause cause, const std::string& reason);
  base::Status signal_ranks(int signo);
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);

  const model::Placement& placement() const { return placement_; }
  // Sets the job's share of a host that was not known when the job started. The next recovery() includes it.
  void set_share(const std::string& host, const std::optional<model::HostShare>& share);
  // True if two of its hosts are the same host. recovery() includes that.
  bool has_merged_hosts() const { return !first_of_.empty(); }
  // True if its ranks continue when launcherd ends.
  bool holds() const { return is_held_; }
  model::JobState state() const { return state_; }
  // True after its last record and on_ended. Nothing of it changes from then on.
  bool is_over() const { return is_over_; }
  // Adds what the store does not know: its hosts, and the hosts of ranks that wait.
  void describe(v1::Job& job) const;

 private:
  base::Status open_output();
  void make_job(model::JobSpec job, const proto::LaunchRequests& wishes);
  std::shared_ptr<JobAgents> make_agents(PooledJob pooled, int attempt) const;
  void record_event(const model::JobEvent& event, std::optional<JobStep> job_step, std::optional<RankStep> rank_step);
  std::optional<JobStep> step(model::JobTrigger trigger, const std::string& reason);
  void end(model::JobState state, const std::string& reason, const model::JobEnded& ended);
  std::string end_reason(const JobOutcome& outcome) const;
  std::string with_lost_output(std::string reason) const;

  void record_merges(const std::vector<KnownHost>& hosts);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override;
  void on_root_cause(const model::RankEnd&) override {}
  void on_bound(const std::vector<model::BoundRank>& ranks) override { bound_ = ranks; }
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override;

  std::string host_of(int rank) const;  // empty if the job has no such rank
  struct Steps;                         // applies an event; one function for each kind

  const JobSurroundings& surroundings_;
  const base::JobId id_;
  model::Placement placement_;
  const RunningJobOwner owner_;
  model::JobState state_ = model::JobState::kStarting;
  int attempt_ = 0;
  std::string secret_;         // secret of this attempt
  std::vector<int> first_of_;  // LaunchOptions::resumed_first_of of this attempt
  bool is_held_ = true;
  std::optional<ResumedJob> resumed_;                        // set during an attempt that an earlier launcherd began
  std::map<int, model::RankState> known_ranks_;              // what the store has of resumed_'s ranks
  std::vector<v1::HostStatus> hosts_;                        // in the order of placement_.hosts
  std::unordered_map<std::string, std::size_t> host_index_;  // by name
  std::vector<std::size_t> host_of_rank_;
  std::vector<model::BoundRank> bound_;  // by rank; empty if the runner has not reported it yet
  std::string stop_reason_;              // not empty once a stop was requested
  StopCause stop_cause_ = StopCause::kNone;
  bool stops_at_once_ = false;  // a stop was requested twice
  bool is_over_ = false;

  std::unique_ptr<JournalOutput> sink_;
  std::unique_ptr<RestartingJob> job_;  // last member: its threads end before what they use
};

}  // namespace muster::launcherd::daemon
