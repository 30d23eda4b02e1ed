// Runs a job, and starts all its ranks again after a failure, as JobSpec::failure and JobSpec::max_restarts say.
//
// Each start is a generation (an attempt, in older names). It has new processes and empty stores. It begins when no
// process of the generation before is left on the hosts that it uses. Only the job's id, its output, its events and the
// agents of hosts that stay continue. GenerationPlanner chooses the hosts.
//
// These jobs never start again:
// - A job that was stopped from outside.
// - A job whose program could not be executed.
// - A job whose failed rank exited with model::kNeverAgain.
// - A job that lost a host or may have left a process, if its policy keeps its hosts.
//
// If another party owns the hosts (JobSetup::hosts), each new generation is stored before its agents start, and a
// generation that lacks hosts waits for them. The number of ranks can then be changed by resize().
//
// Owner: hvdrun or launcherd.
// Thread: loop thread only. For calls and for the observer the rules of JobRunner apply (job_runner.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/gate.h"
#include "launcherd/run/generation_hosts.h"
#include "launcherd/run/generation_planner.h"
#include "launcherd/run/job_runner.h"

namespace muster::launcherd::inline run {

// Returns how the generation ended. nullopt if another generation must not follow. `may_change_hosts` means that the
// next one need not use the hosts that have failed.
std::optional<GenerationEnd> restartable_end(const JobOutcome& outcome, bool may_change_hosts);

// The same for a generation that resize() ends. Its ranks may end in any way, but not with model::kNeverAgain.
std::optional<GenerationEnd> resized_end(const JobOutcome& outcome);

// Returns the message without the host's name and without the advice after the first semicolon, for a line that names
// the host itself.
std::string short_reason(const HostFailure& failure);

class RestartingJob final : private JobObserver {
 public:
  // Creates the agents of one attempt.
  using MakeAgents = std::function<std::shared_ptr<JobAgents>(int attempt)>;
  // Returns the bootstrap of one attempt, which is borrowed. An attempt needs its own if the start of the attempt
  // before was cut short, because that cancels the bootstrap for good. Attempts that keep their agents (KeptAgents) do
  // not ask.
  using BootstrapOf = std::function<Bootstrap*(int attempt)>;

  RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, MakeAgents make_agents);
  // Starts the agents itself: OwnAgents, or KeptAgents if the job may start again.
  RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, BootstrapOf bootstrap_of);
  ~RestartingJob() override;

  // These do the same as JobRunner's functions, for every attempt. A later attempt does not get the input that an
  // earlier one has read.
  void set_input(InputSource* source);
  void resize_terminal(int rows, int columns);

  base::Status start();
  void stop(StopCause cause);
  // Gives the job this many ranks from the next generation on, and ends the present one. The ranks get
  // JobSpec::end_signal first, if it is set, and its time. `hosts` are used first; each has its number of further
  // slots, which must be free. Does nothing if the job has, or is getting, this size.
  // FAILED_PRECONDITION: the job's hosts are its own, its policy keeps them, or it is ending. OUT_OF_RANGE: the policy
  // forbids this size. RESOURCE_EXHAUSTED: too few hosts are free. UNAVAILABLE: a new generation begins just now.
  base::Status resize(int ranks, std::vector<model::HostSpec> hosts, ResizeReason reason = {});
  // Returns the size to which resize() could bring the job now, at most `most`. Its present size if it cannot grow.
  int could_grow_to(int most) const;
  // The number of ranks that a running resize() leads to; nullopt if no resize runs.
  std::optional<int> resizes_to() const;
  const std::vector<model::HostSpec>& resize_hosts() const { return resize_hosts_; }
  bool is_resizing() const { return is_resizing_; }
  // With is_resizing().
  const ResizeReason& resize_reason() const { return resize_reason_; }
  // Call it when hosts may have become free. Only a job that waits for hosts acts on it.
  void hosts_changed();
  bool waits_for_hosts() const { return is_waiting_; }

  void signal_ranks(int signo) { runner_->signal_ranks(signo); }
  void suspend(bool on, base::Loop::Task done) { runner_->suspend(on, std::move(done)); }
  base::Status stacks(const StackQuery& query, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done) {
    return runner_->stacks(query, std::move(on_process), std::move(done));
  }
  base::Result<ExecControls> exec(const v1::ExecRequest& first, ExecCaller caller) {
    return runner_->exec(first, std::move(caller));
  }
  base::Status explain_hang(std::function<void(const model::HangReport&)> done) {
    return runner_->explain_hang(std::move(done));
  }
  base::Status set_live_hosts(std::vector<model::HostSpec> hosts) { return runner_->set_live_hosts(std::move(hosts)); }
  base::Status set_live_size(int min_ranks, std::optional<int> max_ranks) {
    return runner_->set_live_size(min_ranks, max_ranks);
  }

 private:
  void make_runner();
  base::Result<NextGeneration> start_without(const GenerationEnd& end);
  void start_again();
  void plan_next();
  void wait_for_hosts(const GenerationPlanner& planned, const std::string& why);
  void limit_wait();
  void commit(GenerationPlanner planned, NextGeneration next);
  void generation_not_stored(const base::Status& why);
  void count_generation();
  void launch_generation();
  void resume_wait(const GenerationWait& wait);
  void begin_resize();
  void resize_not_stored(const base::Status& why);
  void end_for_resize();
  void give_notice();
  std::vector<model::HostSpec> offers(Availability when) const;
  void report_generation(const JobOutcome& before, const NextGeneration& next);
  void keep_leftovers(JobOutcome& outcome);  // moves them out of the outcome
  void plan_end_signal();
  void send_end_signal();
  void finish(JobOutcome outcome);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_progress_file() override { has_progress_ = true; }
  void on_first_collective(int generation) override;
  void on_note(const std::string& line) override { observer_->on_note(line); }
  void on_remark(const std::string& line) override { observer_->on_remark(line); }
  void on_warning(const std::string& line) override { observer_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { observer_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override;
  void on_hang_over(std::chrono::milliseconds silent) override { observer_->on_hang_over(silent); }
  void on_late(const std::vector<v1::RankLateness>& latest) override { observer_->on_late(latest); }
  void on_host_load(const std::string& host, const v1::HostLoad& load) override { observer_->on_host_load(host, load); }
  void on_steps(std::uint64_t more) override { observer_->on_steps(more); }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { observer_->on_bound(ranks); }
  void on_finished(const JobOutcome& outcome) override;
  void on_live_hosts(const LiveHosts& hosts) override { observer_->on_live_hosts(hosts); }
  void on_event(const model::JobEvent& event) override;

  base::Loop& loop_;
  const base::Clock& clock_;
  model::JobSpec job_;
  model::Placement placement_;
  LaunchOptions options_;
  GenerationPlanner planner_;
  const base::Environment environment_;
  const MakeAgents make_agents_;
  const std::function<bool()> take_progress_;
  OutputSink* const sink_;
  JobObserver* const observer_;
  const std::optional<std::chrono::milliseconds> timeout_;  // limit for all attempts together
  base::MonotonicTime started_at_{};
  GenerationHosts* const pool_;  // nullptr if the hosts are the job's own
  const std::shared_ptr<const ResumedGeneration> resumed_;
  InputSource* input_ = nullptr;
  std::optional<std::pair<int, int>> window_;          // rows, columns
  StopCause stopped_by_ = StopCause::kNone;            // the first stop from outside
  bool is_stopped_ = false;                            // stopped from outside, so no other attempt begins
  std::optional<JobOutcome> failed_;                   // outcome of the failed attempt while the next one is scheduled
  std::optional<NextGeneration> next_;                 // the hosts of the attempt that is scheduled
  std::optional<GenerationEnd> end_;                   // how the failed attempt ended, while its successor is planned
  std::vector<model::HostSpec> resize_hosts_;          // hosts that the next generation uses first
  ResizeReason resize_reason_;                         // of the newest resize()
  bool is_resizing_ = false;                           // this attempt is being ended by resize()
  bool is_ending_ = false;                             // the ranks of this attempt are being ended
  bool is_waiting_ = false;                            // the next attempt lacks hosts
  std::string waits_why_;                              // what it lacks, as reported last
  std::optional<base::MonotonicTime> failed_at_;       // when this attempt failed
  std::optional<base::MonotonicTime> last_failed_at_;  // when the one before failed; nullopt once this one runs
  // Equals last_failed_at_, but is nullopt after this attempt's first collective was reported.
  std::optional<base::MonotonicTime> awaits_collective_;
  std::vector<HostFailure> unclean_;  // of all failed attempts: hosts where processes of the job may be left
  int strays_killed_ = 0;             // by all failed attempts
  std::unique_ptr<JobRunner> runner_;
  base::Timer again_;
  base::Timer end_signal_timer_;
  base::Timer resize_timer_;  // runs while ranks have time after JobSpec::end_signal
  base::Timer wait_timer_;    // ends a job that waits for hosts at JobSpec::timeout
  base::Gate gate_;
  base::Timer return_timer_;   // runs while a job waits, until a failed host may be used again
  bool has_progress_ = false;  // an agent has seen this attempt's progress
  bool is_running_ = false;    // every rank of this attempt was spawned
  bool is_end_near_ = false;   // the time for JobSpec::end_signal has come
};

}  // namespace muster::launcherd::run
