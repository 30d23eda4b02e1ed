// Runs a job, and starts all its ranks again after a failure, as JobSpec::failure and JobSpec::max_restarts say.
//
// Each start is a generation (an attempt, in older names). It has new agents, new processes and empty stores. It begins
// when no process of the generation before is left on the hosts that it uses. Only the job's id, its output and its
// events continue. GenerationPlanner chooses the hosts.
//
// These jobs never start again:
// - A job that was stopped from outside.
// - A job whose program could not be executed.
// - A job whose failed rank exited with model::kNeverAgain.
// - A job that lost a host or may have left a process, if its policy keeps its hosts.
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

#include "launcherd/run/generation_planner.h"
#include "launcherd/run/job_runner.h"

namespace muster::launcherd::inline run {

// Returns how the generation ended. nullopt if another generation must not follow. `may_change_hosts` means that the
// next one need not use the hosts that have failed.
std::optional<GenerationEnd> restartable_end(const JobOutcome& outcome, bool may_change_hosts);

// Returns the message without the host's name and without the advice after the first semicolon, for a line that names
// the host itself.
std::string short_reason(const HostFailure& failure);

class RestartingJob final : private JobObserver {
 public:
  // Creates the agents of one attempt.
  using MakeAgents = std::function<std::shared_ptr<JobAgents>(int attempt)>;
  // Returns the bootstrap of one attempt, which is borrowed. Each attempt needs its own, because the end of a start
  // cancels the bootstrap for good.
  using BootstrapOf = std::function<Bootstrap*(int attempt)>;

  RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, MakeAgents make_agents);
  // Starts new agents (OwnAgents) for each attempt.
  RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, BootstrapOf bootstrap_of);
  ~RestartingJob() override;

  // These do the same as JobRunner's functions, for every attempt. A later attempt does not get the input that an
  // earlier one has read.
  void set_input(InputSource* source);
  void resize_terminal(int rows, int columns);

  base::Status start();
  void stop(StopCause cause);
  void signal_ranks(int signo) { runner_->signal_ranks(signo); }
  void suspend(bool on, base::Loop::Task done) { runner_->suspend(on, std::move(done)); }
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done) {
    return runner_->stacks(ranks, std::move(on_process), std::move(done));
  }

 private:
  void make_runner();
  void start_again();
  void report_generation(const JobOutcome& before, const NextGeneration& next);
  void keep_leftovers(const JobOutcome& outcome);
  void plan_end_signal();
  void send_end_signal();
  void finish(JobOutcome outcome);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string& line) override { observer_->on_note(line); }
  void on_remark(const std::string& line) override { observer_->on_remark(line); }
  void on_warning(const std::string& line) override { observer_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { observer_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override;
  void on_bound(const std::vector<model::BoundRank>& ranks) override { observer_->on_bound(ranks); }
  void on_finished(const JobOutcome& outcome) override;
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
  InputSource* input_ = nullptr;
  std::optional<std::pair<int, int>> window_;          // rows, columns
  bool is_stopped_ = false;                            // stopped from outside, so no other attempt begins
  std::optional<JobOutcome> failed_;                   // outcome of the failed attempt while the next one is scheduled
  std::optional<NextGeneration> next_;                 // the hosts of the attempt that is scheduled
  std::optional<base::MonotonicTime> failed_at_;       // when this attempt failed
  std::optional<base::MonotonicTime> last_failed_at_;  // when the one before failed; nullopt once this one runs
  std::vector<HostFailure> unclean_;  // of all failed attempts: hosts where processes of the job may be left
  int strays_killed_ = 0;             // by all failed attempts
  std::unique_ptr<JobRunner> runner_;
  base::Timer again_;
  base::Timer end_signal_timer_;
  bool is_running_ = false;   // every rank of this attempt was spawned
  bool is_end_near_ = false;  // the time for JobSpec::end_signal has come
};

}  // namespace muster::launcherd::run
