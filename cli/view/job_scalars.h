// --tensorboard: writes what is measured of a running job into a file for TensorBoard, and passes all calls on.
//
// It writes every kPeriod, and at changes of the generation, at reports of hangs and at the end. Each record goes to
// the file at once.
//
// Thread: loop thread only.
// Errors: if a write fails, it warns once and writes no more. The job goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "cli/view/tensorboard_file.h"
#include "launcherd/run/job_runner.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::cli::inline view {

class JobScalars final : public launcherd::JobObserver {
 public:
  static constexpr std::chrono::milliseconds kPeriod{5'000};
  // Agents report their load only after changes. Of so many hosts, or fewer, the last report is written every time.
  static constexpr std::size_t kHostsEachTime = 64;

  // Borrows all but `file`. `output_bytes` counts the output of all ranks.
  JobScalars(base::Loop& loop, const base::Clock& clock, std::unique_ptr<TensorboardFile> file,
             std::function<std::uint64_t()> output_bytes, launcherd::JobObserver* next,
             std::chrono::milliseconds period = kPeriod);

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override {
    next_->on_progress(up, total, waiting);
  }
  void on_running() override { next_->on_running(); }
  void on_note(const std::string& line) override { next_->on_note(line); }
  void on_remark(const std::string& line) override { next_->on_remark(line); }
  void on_warning(const std::string& line) override { next_->on_warning(line); }
  void on_error_file(int rank, const std::string& content) override { next_->on_error_file(rank, content); }
  void on_root_cause(const model::RankEnd& root) override { next_->on_root_cause(root); }
  void on_hang_over(std::chrono::milliseconds silent) override { next_->on_hang_over(silent); }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { next_->on_bound(ranks); }
  void on_steps(std::uint64_t more) override {
    steps_ = steps_.value_or(0) + more;
    next_->on_steps(more);
  }
  void on_host_load(const std::string& host, const v1::HostLoad& load) override;
  void on_late(const std::vector<v1::RankLateness>& latest) override;
  void on_event(const model::JobEvent& event) override;
  void on_finished(const launcherd::JobOutcome& outcome) override;

 private:
  struct Load {
    v1::HostLoad load;
    bool is_new = true;
  };

  void sample();
  void add_loads(std::vector<TensorboardValue>& values);
  void write(const std::vector<TensorboardValue>& values);

  const base::Clock& clock_;
  const std::unique_ptr<TensorboardFile> file_;
  const std::function<std::uint64_t()> output_bytes_;
  launcherd::JobObserver* const next_;
  const base::MonotonicTime began_;
  base::MonotonicTime sampled_;
  std::uint64_t sampled_bytes_ = 0;
  std::optional<std::uint64_t> steps_;  // since the last sample; nullopt if the job has reported none yet
  std::vector<v1::RankLateness> late_;  // the ranks that came last most often
  std::map<std::string, Load> loads_;   // by host
  int hangs_ = 0;
  base::Timer timer_;
};

}  // namespace muster::cli::view
