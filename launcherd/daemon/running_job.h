// One job of launcherd, from the moment at which it has slots. It owns the job's runner and output, and turns the
// runner's reports into events for the store.
//
// running_job.cc: all jobs.
// running_job_live.cc: jobs whose ranks live on while their number changes.
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
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/gate.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/host_pool.h"
#include "launcherd/daemon/abandoned_job.h"
#include "launcherd/daemon/journal_output.h"
#include "launcherd/daemon/live_slots.h"
#include "launcherd/daemon/recovery.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/output/progress_sink.h"
#include "launcherd/queue/fair_use.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/store/records.h"
#include "launcherd/trace/job_trace.h"
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
  // Makes the agents of a job. Empty means those of `pool`.
  std::function<std::shared_ptr<JobAgents>(PooledJob)> agents_for{};
  std::string state_directory;  // absolute; files below it are never staged
  std::string jobs_directory;   // <state>/jobs; exists
  FairUse fair_use{};
  JobTraces* traces = nullptr;                           // nullptr if no traces are sent
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
                        const std::string& reason, base::WallTime now, std::optional<bool> is_retryable = {});

RankStep step_of(const model::RankEnd& end, int attempt, model::RankState to);
std::string stored_reason(std::string_view reason);

// A stored job that an earlier launcherd began.
struct ResumedJob {
  StoredJob job;
  Recovery recovery;
  std::vector<StoredRank> ranks;  // ranks of its newest attempt
};

using ShareSettled = std::function<void(const base::Status&)>;

// How a job's hosts change between two generations.
struct Reallocation {
  const model::Placement& before;  // what the job has had
  const model::Placement& after;   // what it has now
};

// Why a job goes on in another generation.
enum class GenerationCause { kFailure, kHostLost, kResize, kPreemption, kGrowth };

GenerationCause cause_of(ResizeCause cause);

struct RunningJobOwner {
  std::function<void(Batch)> record;  // stores events
  std::function<void()> on_ended;     // called after the last record
  // Decides the job's shares of hosts that are now known. `done` runs when the disk has the shares. That may be only
  // after other jobs end.
  std::function<void(const std::vector<KnownHost>&, ShareSettled done)> settle_shares{};
  // Returns hosts with slots for the job beside what it has (GenerationHosts::offers).
  std::function<std::vector<model::HostSpec>(Availability)> offers{};
  // Returns the job's share of a host for further ranks there. nullopt if the host's cores and GPUs are not known yet.
  std::function<base::Result<std::optional<model::HostShare>>(const std::string& host, int ranks)> further_share{};
  // Counts the change in the table of hosts.
  std::function<void(const Reallocation&)> reallocate{};
  // The job waits for hosts, or does so no longer.
  std::function<void(bool waits)> on_waiting{};
  // Stores the batch, then calls `done`. After an error the disk does not have the batch. If launcherd is about to end,
  // `done` is not called, because the next launcherd continues from what is stored.
  std::function<void(Batch, Stored done)> when_stored{};
  // Counts a generation for metrics.
  std::function<void(GenerationCause)> on_generation{};
  std::function<void(base::Duration taken)> on_running_again{};
  std::function<void(std::chrono::milliseconds taken)> on_first_collective{};
};

class RunningJob final : private JobObserver, private GenerationHosts {
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

  // Ends the job as KILLED. Call it instead of start(). No later launcherd can start a job whose ranks live on, because
  // it cannot know that no rank runs.
  void stop_before_start(const std::string& reason);
  // True while it only ends what a job of an earlier launcherd has left. The next launcherd can do that, too.
  bool is_abandoning() const { return abandoned_ != nullptr && !is_over_; }
  bool has_started() const { return job_ != nullptr || abandoned_ != nullptr || is_over_; }

  // Stops the job. `reason` is for example "killed" or "its deadline has passed". A second call kills at once. A call
  // before start() is allowed.
  void stop(StopCause cause, const std::string& reason);
  base::Status signal_ranks(int signo);
  base::Status stacks(const StackQuery& query, std::function<void(v1::ProcessStack)> on_process, base::Loop::Task done);
  base::Result<ExecControls> exec(const v1::ExecRequest& first, ExecCaller caller);
  base::Status explain_hang(std::function<void(const model::HangReport&)> done);

  // Gives the job another number of ranks (RestartingJob::resize). An error names no job. After OK, store recovery()
  // before the caller gets its reply.
  base::Status resize(int ranks, std::vector<model::HostSpec> hosts, ResizeReason reason = {});
  // Returns the size that the job could have now, at most `most` (RestartingJob::could_grow_to).
  int could_grow_to(int most) const;
  // The size to which a running change leads; 0 if the job is being stopped. nullopt: nothing changes, or only more
  // ranks join.
  std::optional<int> changes_to() const;
  // Call it when hosts may have become free, if the job waits for them.
  void hosts_changed();
  bool waits_for_hosts() const { return wait_.has_value(); }
  int attempt() const { return attempt_; }
  // The hosts that the job leaves out because they failed, as of the newest generation.
  const std::vector<model::FailedHost>& failed_hosts() const;

  const model::Placement& placement() const { return placement_; }
  // What counts as used. While the job waits for hosts, it lacks those that have failed. If ranks live on, it also has
  // what ranks that must end still use.
  model::Placement allocation() const;
  // The part of allocation() on one host; without hosts if it has none there.
  model::Placement allocation_on(const std::string& host) const;
  // The number of ranks that the job has once its changes are done, and that number on one host.
  int size() const;
  int size_on(const std::string& host) const;
  // Sets the job's share of a host that was unknown when the job started. The next recovery() includes it.
  void set_share(const std::string& host, const std::optional<model::HostShare>& share);
  // True if two names of its hosts mean the same host. recovery() includes that.
  bool has_merged_hosts() const { return !first_of_.empty(); }
  // True if its ranks continue when launcherd ends.
  bool holds() const { return is_held_; }
  model::JobState state() const { return state_; }
  int exit_code() const { return exit_code_; }  // once it is over
  // True after the last record and on_ended. From then on nothing changes.
  bool is_over() const { return is_over_; }
  // A counter of the job's steps (JobObserver::on_steps). nullopt if it reports none.
  std::optional<std::uint64_t> steps() const { return steps_; }
  // Adds what the store does not know: the job's hosts, and the hosts of waiting ranks.
  void describe(v1::Job& job) const;

 private:
  base::Status open_output();
  void make_job(model::JobSpec job, const proto::LaunchRequests& wishes);
  std::shared_ptr<JobAgents> make_agents(PooledJob pooled, int attempt) const;
  void record(Batch batch);
  void record_event(const model::JobEvent& event, std::optional<JobStep> job_step, std::optional<RankStep> rank_step);
  void record_soon(const model::JobEvent& event, std::optional<RankStep> rank_step);
  bool may_gather(const RankStep& step);
  void record_gathered();
  std::optional<JobStep> step(model::JobTrigger trigger, const std::string& reason);
  void end(model::JobState state, const std::string& reason, const model::JobEnded& ended);
  std::string end_reason(const JobOutcome& outcome) const;
  std::string with_lost_output(std::string reason) const;

  void record_merges(const std::vector<KnownHost>& hosts);
  void set_placement(model::Placement placement);
  ResumedGeneration generation() const;
  GenerationCause cause_of_generation() const;
  void record_generation(const model::JobEvent& event, const std::string& reason);

  std::vector<model::HostSpec> offers(Availability when) override;
  void change(const GenerationChange& change) override;
  void when_stored(Stored done) override;
  void wait(const GenerationWait& wait, const std::string& why) override;
  void runs_again(base::Duration taken) override;

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override;
  void on_root_cause(const model::RankEnd&) override {}
  void on_hang_over(std::chrono::milliseconds /*silent*/) override { hang_.reset(); }
  void on_late(const std::vector<v1::RankLateness>& latest) override { late_ = latest; }
  void on_steps(std::uint64_t more) override { steps_ = steps_.value_or(0) + more; }
  void on_bound(const std::vector<model::BoundRank>& ranks) override;
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override;
  void on_live_hosts(const LiveHosts& hosts) override;

  // Defined in running_job_live.cc:
  base::Result<model::HostShare> live_share(const std::string& host) const;
  base::Status resize_live(int ranks, const std::vector<model::HostSpec>& hosts, ResizeReason reason);
  base::Status shrink_live(int ranks, ResizeReason reason);
  base::Status add_slots(const std::vector<model::HostSpec>& hosts);
  int most_live(int most) const;
  void seek_slots();
  void count_slots(const model::Placement& before);
  void narrow_shares();
  std::vector<model::FailedHost> failed_hosts_of(const LiveHosts& hosts) const;
  void list_hosts_when_stored();
  void hosts_stored(const base::Status& stored);
  base::Status send_hosts(const std::vector<model::HostSpec>& hosts);
  void begin_live_generation(model::GenerationBegan began);
  void carry_over(const model::GenerationBegan& began);
  base::Status abandon(const model::JobSpec& job);
  void abandoned(const std::vector<std::string>& unclean);

  std::string host_of(int rank) const;  // empty if the job has no such rank
  struct Steps;                         // applies an event; it has one function for each kind

  const JobSurroundings& surroundings_;
  const base::JobId id_;
  model::Placement placement_;
  const RunningJobOwner owner_;
  model::JobState state_ = model::JobState::kStarting;
  int exit_code_ = 0;
  int attempt_ = 0;
  std::string secret_;         // secret of this attempt
  std::vector<int> first_of_;  // LaunchOptions::resumed_first_of of this attempt
  bool is_held_ = true;
  std::optional<GenerationState> generation_;  // nullopt until the job has had another generation
  std::optional<GenerationWait> wait_;         // set while no generation runs
  std::string last_change_;                    // Job.last_change of launcher.proto
  std::optional<v1::HangReport> hang_;         // Job.hang
  std::optional<v1::WrongWorld> wrong_world_;
  std::vector<v1::RankLateness> late_;                         // Job.late
  std::optional<std::uint64_t> steps_;                         // since this launcherd knows the job
  std::optional<std::chrono::milliseconds> first_collective_;  // Job.first_collective_ms of launcher.proto
  std::optional<ResumedJob> resumed_;                          // set during an attempt that an earlier launcherd began
  std::map<int, model::RankState> known_ranks_;                // what the store knows about resumed_'s ranks
  std::vector<v1::HostStatus> hosts_;                          // in the order of placement_.hosts
  std::unordered_map<std::string, std::size_t> host_index_;    // by name
  std::vector<std::size_t> host_of_rank_;
  std::vector<model::BoundRank> bound_;  // by rank; empty if the runner has not reported it yet
  std::string stop_reason_;              // not empty once a stop was requested
  StopCause stop_cause_ = StopCause::kNone;
  bool stops_at_once_ = false;  // a stop was requested twice
  bool is_over_ = false;
  std::vector<NewEvents::Event> gathered_;     // events of this turn of the loop
  std::vector<model::RankState> rank_states_;  // by rank; what the store knows, or will know
  base::WallTime gathered_at_{};

  // Only for jobs whose ranks live on:
  std::optional<model::ElasticSpec> live_;
  std::optional<LiveSlots> slots_;
  std::vector<model::FailedHost> live_failed_;  // of a live job, as reported last
  int lacks_ = 0;                               // slots without which the job cannot go on
  int lists_ = 0;                               // the number of calls of list_hosts_when_stored()
  std::optional<ResizeReason> size_change_;     // the last change of its size, until the next generation
  bool has_lost_host_ = false;                  // in the present generation
  bool has_failed_rank_ = false;                // in the present generation
  std::map<int, RankStep> live_ranks_;          // by rank; those that run
  base::Timer seek_pause_;                      // armed after further slots could not be stored
  std::unique_ptr<AbandonedJob> abandoned_;
  base::Gate gate_;

  std::unique_ptr<JournalOutput> sink_;
  std::unique_ptr<ProgressSink> progress_;  // writes to sink_; nullptr if nothing shows progress
  std::unique_ptr<RestartingJob> job_;      // last member, because its threads use the others until they end
};

}  // namespace muster::launcherd::daemon
