// One job of launcherd, from the moment at which it has slots. It owns the job's runner and output, and turns the
// runner's reports into events for the store.
//
// Owner: JobManager.
// Thread: loop thread only. It calls the owner's functions from within its own functions. The owner must not destroy
// this object in such a call, but post the destruction.
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
  std::string state_directory;                           // absolute; files below it are never staged
  std::string jobs_directory;                            // <state>/jobs; exists
  bool more_hosts_may_join = false;                      // agents of further hosts may connect by themselves
  std::function<void(const std::string& line)> on_line;  // for launcherd's own log
};

// These return the folder and the file that hold the output of a job.
std::string job_directory(const JobSurroundings& surroundings, const base::JobId& id);
std::string journal_path(const JobSurroundings& surroundings, const base::JobId& id);

// Returns the changes that end a job without a runner, or whose runner has finished: its last state, and JobEnded.
Batch end_of_job(const base::JobId& id, int attempt, model::JobState state, const std::string& reason,
                 const model::JobEnded& ended, base::WallTime now);
Batch end_without_ranks(const base::JobId& id, int attempt, model::JobState state, int exit_code,
                        const std::string& reason, base::WallTime now);

// A stored job that an earlier launcherd began.
struct ResumedJob {
  StoredJob job;
  Recovery recovery;
  std::vector<StoredRank> ranks;  // ranks of its newest attempt
};

using ShareSettled = std::function<void(const base::Status&)>;

struct RunningJobOwner {
  std::function<void(Batch)> record;  // stores events
  std::function<void()> on_ended;     // called after the last record
  // Decides the job's shares of hosts that are now known. `done` runs when the disk has the shares. That may be only
  // after other jobs end.
  std::function<void(const std::vector<KnownHost>&, ShareSettled done)> settle_shares{};
};

class RunningJob final : private JobObserver {
 public:
  RunningJob(const JobSurroundings& surroundings, base::JobId id, model::Placement placement, RunningJobOwner owner);
  RunningJob(const JobSurroundings& surroundings, ResumedJob resumed, RunningJobOwner owner);
  ~RunningJob() override;

  // Returns the event that changes the job's state to STARTING.
  NewEvent starting(base::WallTime now) const;
  NewRecovery recovery() const;
  // Call it once starting() and recovery() are stored. It starts the job, or resumes one that an earlier launcherd
  // began. An error ends the job, perhaps within this call, and becomes the reason of its end.
  void start(model::JobSpec job, const proto::LaunchRequests& wishes);
  void start_failed(const base::Status& why);
  // Call it instead of start() if the start cannot be stored. The job then ends like a waiting one.
  void start_refused(const base::Status& why);

  // Stops the job. `reason` is for example "killed" or "its deadline has passed". A second call kills at once. A call
  // before start() is allowed.
  void stop(StopCause cause, const std::string& reason);
  base::Status signal_ranks(int signo);
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);

  const model::Placement& placement() const { return placement_; }
  // Sets the job's share of a host that was unknown when the job started. The next recovery() includes it.
  void set_share(const std::string& host, const std::optional<model::HostShare>& share);
  // True if two names of its hosts mean the same host. recovery() includes that.
  bool has_merged_hosts() const { return !first_of_.empty(); }
  // True if its ranks continue when launcherd ends.
  bool holds() const { return is_held_; }
  model::JobState state() const { return state_; }
  // True after the last record and on_ended. From then on nothing changes.
  bool is_over() const { return is_over_; }
  // Adds what the store does not know: the job's hosts, and the hosts of waiting ranks.
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
  struct Steps;                         // applies an event; it has one function for each kind

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
  std::map<int, model::RankState> known_ranks_;              // what the store knows about resumed_'s ranks
  std::vector<v1::HostStatus> hosts_;                        // in the order of placement_.hosts
  std::unordered_map<std::string, std::size_t> host_index_;  // by name
  std::vector<std::size_t> host_of_rank_;
  std::vector<model::BoundRank> bound_;  // by rank; empty if the runner has not reported it yet
  std::string stop_reason_;              // not empty once a stop was requested
  StopCause stop_cause_ = StopCause::kNone;
  bool stops_at_once_ = false;  // a stop was requested twice
  bool is_over_ = false;

  std::unique_ptr<JournalOutput> sink_;
  std::unique_ptr<RestartingJob> job_;  // last member, because its threads use the others until they end
};

}  // namespace muster::launcherd::daemon
