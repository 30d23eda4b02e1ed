// --json-events: writes a job's events into a file, one line of JSON each, and passes all calls on to the view.
// Thread: loop thread only.
// Errors: if a write fails, EventFile reports that once and writes no more. The job goes on.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/run/job_runner.h"
#include "model/placement.h"

namespace muster::cli::inline view {

class EventFile final : public launcherd::JobObserver {
 public:
  // Truncates the file and writes the first event. Borrows `clock` and `next`.
  static base::Result<std::unique_ptr<EventFile>> open(const std::string& path, const std::string& job_id,
                                                       const model::Placement& placement, const base::Clock& clock,
                                                       launcherd::JobObserver* next);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override { next_->on_running(); }
  void on_note(const std::string& line) override { next_->on_note(line); }
  void on_remark(const std::string& line) override { next_->on_remark(line); }
  void on_warning(const std::string& line) override { next_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { next_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override { next_->on_root_cause(root); }
  void on_hang_over(std::chrono::milliseconds silent) override { next_->on_hang_over(silent); }
  void on_late(const std::vector<v1::RankLateness>& latest) override { next_->on_late(latest); }
  void on_steps(std::uint64_t more) override { next_->on_steps(more); }
  void on_host_load(const std::string& host, const v1::HostLoad& load) override { next_->on_host_load(host, load); }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { next_->on_bound(ranks); }
  void on_event(const model::JobEvent& event) override;
  void on_finished(const launcherd::JobOutcome& outcome) override;

 private:
  EventFile(base::UniqueFd fd, std::string path, std::string job_id, const base::Clock& clock,
            launcherd::JobObserver* next)
      : fd_(std::move(fd)), path_(std::move(path)), job_id_(std::move(job_id)), clock_(clock), next_(next) {}

  base::UniqueFd fd_;  // invalid after a failure
  const std::string path_;
  const std::string job_id_;
  const base::Clock& clock_;
  launcherd::JobObserver* const next_;
  std::uint64_t sequence_ = 0;
};

}  // namespace muster::cli::view
