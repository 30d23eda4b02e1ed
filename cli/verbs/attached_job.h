// Shows a job of launcherd as if it ran here, for `muster attach` and `hvdrun --launcher`.
// Thread: one thread reads the job's output and one reads its events. All other work happens on the loop thread.
// End: it finishes when the job has ended and its output is shown, when the user detaches, or when launcherd stays
// away.
// Example:
//
//   AttachedJob attached(loop, {.job = job, .request = request}, &output, notices, [&] { loop.stop(); });
//   MUSTER_RETURN_IF_ERROR(attached.start());
//   loop.run();
//   return attached.exit_code();
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/view/log_output.h"
#include "launcherd/output/terminal.h"
#include "launcherd/run/job_runner.h"
#include "model/exit_code.h"

namespace muster::cli::inline verbs {

struct Attachment {
  FoundJob job;
  v1::LogsRequest request;  // start() sets `follow`
  // If true, signals and a closed stdout end the job. If false, they end only this view of the job.
  bool owns_job = false;
  bool is_terminal = false;                             // stderr is a terminal
  bool shows_stderr = false;                            // `output` shows the stderr of all ranks that it gets
  bool quiet = false;                                   // as JobViewOptions::quiet
  bool has_color = false;                               // as JobViewOptions::has_color
  std::function<void(const v1::Event&)> on_event = {};  // called on the thread that reads the events
};

class AttachedJob {
 public:
  // Borrows everything except the attachment. A thread of this object uses `output`. `finished` runs on the loop
  // thread.
  AttachedJob(base::Loop& loop, Attachment attachment, LogOutput* output, launcherd::NoticeWriter& notices,
              std::function<void()> finished);
  ~AttachedJob();  // ends the threads of this object
  AttachedJob(const AttachedJob&) = delete;
  AttachedJob& operator=(const AttachedJob&) = delete;

  base::Status start();
  // SIGINT, SIGTERM and SIGHUP stop the job if owns_job, else they detach from it. SIGUSR1 and SIGUSR2 go to the ranks
  // if owns_job, else nothing happens.
  void on_signal(int signo);
  // Valid after `finished`: the job's exit code, or the code for the reason why this object left the job.
  int exit_code() const { return exit_code_; }

 private:
  void read_output();
  void read_events();
  void on_output_end(const base::Status& status, const base::Status& shown);
  void on_events_end(base::Result<std::optional<EndedJob>> ended);
  void report_state(const v1::Event& event);
  void ask(std::function<base::Status(launcherd::ApiClient&)> question);
  void stop_job(int signo);
  void leave(int exit_code, const std::string& why);
  void finish_if_over();
  void report();

  base::Loop& loop_;
  Attachment attachment_;
  LogOutput* const output_;
  launcherd::NoticeWriter& notices_;
  const std::function<void()> finished_;
  base::Gate gate_;  // declared before the threads, which wrap tasks in it

  launcherd::ApiClient log_client_;
  launcherd::ApiClient event_client_;
  base::UniqueFd cancel_fd_;  // eventfd; readable from destruction on, which ends all waits
  std::vector<std::thread> threads_;

  bool is_output_over_ = false;
  bool are_events_over_ = false;
  bool is_finished_ = false;
  std::optional<EndedJob> ended_;
  int stop_signal_ = 0;  // the first signal by which this stopped the job; 0 if none
  int stops_ = 0;
  std::optional<int> own_code_;  // replaces the job's exit code, if set
  int exit_code_ = model::kMusterFailed;
};

// Converts the end of a job into the outcome that hvdrun's report takes. `stop_signal` is the signal by which the
// caller stopped the job; 0 if the caller did not stop it.
launcherd::JobOutcome outcome_of(const EndedJob& ended, int stop_signal);

}  // namespace muster::cli::verbs
