// Runs a job and, when one of its ranks fails by itself, all of it again, at most JobSpec::max_restarts times. Every
// attempt has new agents, new processes and empty stores, and begins when nothing of the one before is left; what keeps
// its place are the job's id, its output and its events. As torchrun's --max-restarts, for the whole job.
//
// Not started again: a job that was stopped from outside, that lost a host, whose program could not be executed, or
// that may have left a process somewhere.
//
// Loop thread only; the calls and the observer's are those of JobRunner (job_runner.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcherd/run/job_runner.h"

namespace muster::launcherd::inline run {

// Whether another attempt may cure what ended this one.
bool is_worth_a_restart(const JobOutcome& outcome);

class RestartingJob final : private JobObserver {
 public:
  // The agents of one attempt.
  using MakeAgents = std::function<std::shared_ptr<JobAgents>(int attempt)>;

  // `sink` and `observer` are borrowed and outlive it.
  RestartingJob(base::Loop& loop, const base::Clock& clock, model::JobSpec job, model::Placement placement,
                LaunchOptions options, base::Environment environment, MakeAgents make_agents, OutputSink* sink,
                JobObserver* observer);
  // With agents of its own for each attempt. `bootstrap` is borrowed, too.
  RestartingJob(base::Loop& loop, const base::Clock& clock, model::JobSpec job, model::Placement placement,
                LaunchOptions options, base::Environment environment, Bootstrap* bootstrap, OutputSink* sink,
                JobObserver* observer);
  ~RestartingJob() override;

  // As JobRunner's, for every attempt: what one has read is not read again by the next.
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
  void plan_end_signal();
  void send_end_signal();
  void finish(JobOutcome outcome);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string& line) override { observer_->on_note(line); }
  void on_remark(const std::string& line) override { observer_->on_remark(line); }
  void on_warning(const std::string& line) override { observer_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { observer_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override { observer_->on_root_cause(root); }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { observer_->on_bound(ranks); }
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override { observer_->on_event(event); }

  base::Loop& loop_;
  const base::Clock& clock_;
  model::JobSpec job_;
  const model::Placement placement_;
  LaunchOptions options_;
  const base::Environment environment_;
  const MakeAgents make_agents_;
  OutputSink* const sink_;
  JobObserver* const observer_;
  const std::optional<std::chrono::milliseconds> timeout_;  // of all attempts together
  base::MonotonicTime started_at_{};
  InputSource* input_ = nullptr;
  std::optional<std::pair<int, int>> window_;  // rows, columns
  bool is_stopped_ = false;                    // from outside: no other attempt begins
  std::optional<JobOutcome> failed_;           // the attempt that the next one, already on its way, replaces
  std::unique_ptr<JobRunner> runner_;
  base::Timer again_;
  base::Timer end_signal_timer_;
  bool is_running_ = false;   // every rank of this attempt has been spawned
  bool is_end_near_ = false;  // the moment of end_signal has come
};

}  // namespace muster::launcherd::run
