// Shows a foreground job: the status line while hosts start, warnings, the root cause, and the report at the end.
// Thread: loop thread only.
#pragma once

#include <functional>
#include <optional>

#include "launcherd/output/terminal.h"
#include "launcherd/run/job_runner.h"

namespace muster::cli::inline view {

struct JobViewOptions {
  bool is_terminal = false;  // stderr is a terminal
  bool verbose = false;
  bool reports_bindings = false;
  bool shows_stderr = false;     // the stderr of all ranks goes to the stream of the report
  bool quiet = false;            // hide progress, remarks, and the last line of a job that ended well
  model::Placement placement{};  // names the roles of ranks
  std::function<void(int rank, const std::string& content)> on_error_file{};  // if empty, error files are ignored
  std::function<void(const model::Placement&)> on_generation{};               // a new generation begins; may be empty
  std::string job_id{};                                                       // for commands in the report of a hang
  bool has_color = false;                                                     // the rank that failed is highlighted
};

class JobView final : public launcherd::JobObserver {
 public:
  // Borrows `notices`. `finished` is called after the report.
  JobView(launcherd::NoticeWriter* notices, JobViewOptions options, std::function<void()> finished)
      : notices_(notices), options_(options), finished_(std::move(finished)) {}

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override;
  void on_running() override { notices_->status(""); }
  void on_note(const std::string& line) override;
  void on_warning(const std::string& line) override { notices_->line(line); }
  void on_remark(const std::string& line) override;
  void on_error_file(int rank, const std::string& content) override {
    if (options_.on_error_file) options_.on_error_file(rank, content);
  }
  void on_root_cause(const model::RankEnd& root) override;
  void on_hang_over(std::chrono::milliseconds silent) override;
  void on_bound(const std::vector<model::BoundRank>& ranks) override;
  void on_event(const model::JobEvent& event) override;
  void on_finished(const launcherd::JobOutcome& outcome) override;

  const std::optional<launcherd::JobOutcome>& outcome() const { return outcome_; }

 private:
  launcherd::NoticeWriter* const notices_;
  const JobViewOptions options_;
  const std::function<void()> finished_;
  std::optional<launcherd::JobOutcome> outcome_;
  bool has_left_out_ = false;  // the job starts without some hosts, so JobStarting has another placement
};

// Returns "rank 3 on n2, local rank 1: cores 4-7, GPU 1 (GPU-5a…)".
std::string format_binding(const model::BoundRank& rank);

}  // namespace muster::cli::view
