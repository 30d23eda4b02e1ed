// One job of launcherd from the moment that it has slots: owns its runner and its output, and turns what the runner
// observes into events of the store. Loop thread only.
//
// The owner's functions are called from within the job's own; the job must not be destroyed there, but be posted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/daemon/lasting_output.h"
#include "launcherd/jobs/restarting_job.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/store/records.h"
#include "model/job_state.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd {

// What all jobs of a launcherd have in common. Borrowed objects outlive the jobs.
struct JobSurroundings {
  base::Loop* loop = nullptr;
  const base::Clock* clock = nullptr;
  LogReader* logs = nullptr;
  BootstrapOptions bootstrap;
  std::string agent_link = "auto";
  std::string build_id;
  std::string jobs_directory;  // <state>/jobs; exists
  base::Environment own;       // what of launcherd's environment its agents need to know; ranks do not get it
  std::function<void(const std::string& line)> on_line;  // for launcherd's own log
};

// Where the output of a job lies.
std::string job_directory(const JobSurroundings& surroundings, const base::JobId& id);
std::string journal_path(const JobSurroundings& surroundings, const base::JobId& id);

// The changes that end a job whose runner is none, or is over: its last state, and JobEnded.
Batch end_of_job(const base::JobId& id, int attempt, model::JobState state, const std::string& reason,
                 const model::JobEnded& ended, base::WallTime now);

struct RunningJobOwner {
  std::function<void(Batch)> record;  // what has happened
  std::function<void()> on_ended;     // after the last record
};

class RunningJob final : private JobObserver {
 public:
  RunningJob(const JobSurroundings& surroundings, base::JobId id, model::Placement placement, RunningJobOwner owner);
  ~RunningJob() override;

  // The event with which it becomes STARTING.
  NewEvent starting(base::WallTime now) const;
  // Once that is stored. The job ends, if need be at once; errors are the reason of its end.
  void start(model::JobSpec job, const std::string& contain);
  void start_failed(const base::Status& why);

  // `reason`: "killed", "its deadline has passed". Once more: at once. Also before start().
  void stop(StopCause cause, const std::string& reason);
  base::Status signal_ranks(int signo);
  base::Status stacks(const std::vector<int>& ranks, std::function<void(v1::ProcessStack)> on_process,
                      base::Loop::Task done);

  const model::Placement& placement() const { return placement_; }
  model::JobState state() const { return state_; }
  // What the store does not know: hosts, and where ranks wait.
  void describe(v1::Job& job) const;

 private:
  base::Status open_output();
  base::Status make_job(model::JobSpec job, const std::string& contain);
  void record_event(const model::JobEvent& event, std::optional<JobStep> job_step, std::optional<RankStep> rank_step);
  std::optional<JobStep> step(model::JobTrigger trigger, const std::string& reason);
  void end(model::JobState state, const std::string& reason, const model::JobEnded& ended);
  std::string end_reason(const JobOutcome& outcome) const;

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override;
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override;
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& outcome) override;
  void on_event(const model::JobEvent& event) override;

  struct Steps;  // what each kind of event changes

  const JobSurroundings& surroundings_;
  const base::JobId id_;
  const model::Placement placement_;
  const RunningJobOwner owner_;
  model::JobState state_ = model::JobState::kStarting;
  int attempt_ = 0;
  std::vector<v1::HostStatus> hosts_;
  std::string stop_reason_;  // not empty: somebody has asked for its end
  StopCause stop_cause_ = StopCause::kNone;
  bool is_over_ = false;

  std::unique_ptr<LastingOutput> sink_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<RestartingJob> job_;  // last: its threads end before what they use
};

}  // namespace muster::launcherd
