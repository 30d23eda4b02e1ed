// Directs the ranks' output and a foreground job's own lines to the terminals, to files, or to both.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "cli/view/rank_console.h"
#include "launcherd/output/filter_sink.h"
#include "launcherd/output/progress_sink.h"
#include "launcherd/output/sinks.h"
#include "launcherd/output/torch_log_sinks.h"
#include "launcherd/output/torch_logs.h"
#include "model/job_spec.h"
#include "model/label_format.h"
#include "model/placement.h"

namespace muster::cli::inline view {

class Outlets {
 public:
  // Absolute paths. Empty means that the option is not given.
  struct Folders {
    std::string output;    // --output-filename, or the folder to which --redirects and --tee write
    std::string logs;      // --log-dir
    std::string run_id{};  // names the folders of --log-layout torchrun
  };

  // How the console shows lines.
  struct Style {
    model::LabelFormat label{};  // stands before each line
    Fold fold = Fold::kAuto;
  };

  static base::Result<std::unique_ptr<Outlets>> open(const base::Clock& clock, const model::JobSpec& job,
                                                     const Style& style, const model::Placement& placement,
                                                     const Folders& folders);

  launcherd::OutputSink* sink() { return sink_; }
  launcherd::NoticeWriter& notices() { return notices_; }
  // Returns whether the console gets all output of all ranks.
  bool shows_all() const { return shown_ == nullptr; }
  bool is_terminal() { return terminals_.err()->is_tty(); }
  void set_raw(bool is_raw);

  // Selects the streams of the ranks of a new generation. Call it before its agents start.
  void set_placement(const model::Placement& placement);

  // Returns the folders of --log-layout torchrun. nullptr for the other layout.
  launcherd::TorchLogs* torch_logs() { return torch_logs_.get(); }

  // Returns whether a rank has printed FailurePolicy::progress_text since the last call. Any thread.
  bool take_progress() { return progress_ != nullptr && progress_->take_progress(); }

  // Call it when the job has ended.
  void close(base::MonotonicTime deadline);

 private:
  void add_sink(launcherd::OutputSink* other, std::unique_ptr<launcherd::TeeSink>& tee);
  explicit Outlets(const model::JobSpec& job);
  base::Status open_filters(const base::Clock& clock, const model::LabelFormat& label, const std::string& log_dir);
  base::Status open_files(const std::string& directory, const model::Placement& placement, bool is_torchs);

  const model::OutputRoutes routes_;
  launcherd::Terminals terminals_;
  launcherd::NoticeWriter notices_;
  std::unique_ptr<RankConsole> console_;
  std::unique_ptr<launcherd::SelectSink> shown_;  // stands before the console; nullptr if the console gets all output
  std::unique_ptr<launcherd::TorchLogs> torch_logs_;  // nullptr without --log-layout torchrun
  std::unique_ptr<launcherd::TorchLogSink> torch_files_;
  std::unique_ptr<launcherd::FileSink> files_;
  std::unique_ptr<launcherd::SelectSink> written_;  // stands before the files
  std::unique_ptr<launcherd::TeeSink> tee_;
  std::unique_ptr<launcherd::OutputSink> filtered_;
  std::unique_ptr<launcherd::SelectSink> searched_;  // stands before the filters; selects the console's output
  std::unique_ptr<launcherd::TeeSink> filter_tee_;
  std::unique_ptr<launcherd::ProgressSink> progress_;  // stands before all others; nullptr if nothing shows progress
  launcherd::OutputSink* sink_ = nullptr;              // the sink above that all output reaches first
};

}  // namespace muster::cli::view
