// Records what is known about a job while its launcher lives: its hosts, its ranks and its events. The launcher's
// socket answers queries from it.
//
// It observes the runner, and passes everything on to the next observer.
//
// Owner: the launcher of the job.
// Thread: loop thread only.
// Limit: it keeps the last kMaxEvents events.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcherd/run/job_runner.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {

// INVALID_ARGUMENT: no such signal exists, or it is SIGKILL, which ends the job.
base::Status check_signal(int signo);

// SUCCEEDED, FAILED or KILLED.
model::JobState final_state(const JobOutcome& outcome);

model::JobEnded ended_event(const std::string& job_id, const JobOutcome& outcome);

class JobRecord final : public JobObserver {
 public:
  static constexpr std::size_t kMaxEvents = 200'000;
  static constexpr int kMaxRanksOfAnAnswer = 10'000;

  // `clock` and `next` are borrowed.
  JobRecord(std::string job_id, std::vector<std::string> command, const model::Placement& placement,
            const base::Clock& clock, JobObserver* next);

  // A name for people, which the job has from then on.
  void set_name(const std::string& name);

  v1::Job job(const v1::GetJobRequest& request) const;

  // Calls `on_event` at once for each kept event from number `from` on, and later for each new one. Calls `on_end`
  // after the last event. Makes neither call after unwatch(). Returns the watcher's number.
  // OUT_OF_RANGE: event `from` is no longer kept.
  base::Result<std::uint64_t> watch(std::uint64_t from, std::function<void(const v1::Event&)> on_event,
                                    std::function<void()> on_end);
  void unwatch(std::uint64_t watcher) { watchers_.erase(watcher); }

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override;
  void on_note(const std::string& line) override { next_->on_note(line); }
  void on_remark(const std::string& line) override { next_->on_remark(line); }
  void on_warning(const std::string& line) override { next_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { next_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override { next_->on_root_cause(root); }
  void on_hang_over(std::chrono::milliseconds silent) override;
  void on_late(const std::vector<v1::RankLateness>& latest) override;
  void on_steps(std::uint64_t more) override { next_->on_steps(more); }
  void on_host_load(const std::string& host, const v1::HostLoad& load) override { next_->on_host_load(host, load); }
  void on_bound(const std::vector<model::BoundRank>& ranks) override;
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override;

 private:
  struct Watcher {
    std::function<void(const v1::Event&)> on_event;
    std::function<void()> on_end;
  };
  struct Update;  // applies an event to the record; one function for each kind of event

  void keep(const model::JobEvent& event);
  v1::HostStatus* host_named(const std::string& name);
  void set_hosts(const model::Placement& placement);
  void change_members(const model::GenerationBegan& began);

  const base::Clock& clock_;
  JobObserver* const next_;
  v1::Job job_;                                      // without ranks
  std::unordered_map<std::string, int> host_index_;  // of job_.hosts, by name
  std::vector<v1::RankStatus> ranks_;
  std::deque<v1::Event> events_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::uint64_t next_watcher_ = 1;
};

}  // namespace muster::launcherd::run
