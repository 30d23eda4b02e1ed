// A job of launcherd, shown here as if it ran here: `muster attach` and `hvdrun --launcher`. Its output and its events
// are read by a thread each; all else happens on the loop. Ends when the job has ended and its output is shown, when it
// is detached, or when launcherd does not come back.
//
//   AttachedJob attached(loop, {.job = job, .wish = wish}, &output, notices, [&] { loop.stop(); });
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

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/view/log_output.h"
#include "launcherd/output/terminal.h"
#include "launcherd/run/job_runner.h"

namespace muster::cli::inline verbs {

struct Attachment {
  FoundJob job;
  v1::LogsRequest wish;                                 // `follow` is set here
  bool owns_job = false;                                // signals and a closed stdout end the job; otherwise only this
  bool is_terminal = false;                             // stderr is one
  bool quiet = false;                                   // as JobViewOptions::quiet
  std::function<void(const v1::Event&)> on_event = {};  // on the thread that reads them
};

class AttachedJob {
 public:
  // Borrows all but the attachment. `output` is used by a thread of this.
  AttachedJob(base::Loop& loop, Attachment attachment, LogOutput* output, launcherd::NoticeWriter& notices,
              std::function<void()> finished);
  ~AttachedJob();  // ends its threads
  AttachedJob(const AttachedJob&) = delete;
  AttachedJob& operator=(const AttachedJob&) = delete;

  base::Status start();
  // SIGINT, SIGTERM, SIGHUP: the job is stopped, or left alone; SIGUSR1, SIGUSR2: its ranks get them, if it is ours.
  void on_signal(int signo);
  // After `finished`: the job's, or why we have left it.
  int exit_code() const { return exit_code_; }

 private:
  void read_output();
  void read_events();
  void on_output_end(const base::Status& status, const base::Status& shown);
  void on_events_end(base::Result<std::optional<EndedJob>> ended);
  void tell_state(const v1::Event& event);
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
  std::shared_ptr<AttachedJob*> self_;  // gone when we are

  launcherd::ApiClient log_client_;
  launcherd::ApiClient event_client_;
  base::UniqueFd cancel_fd_;  // eventfd, readable for ever once nothing is wanted any more
  std::vector<std::thread> threads_;

  bool is_output_over_ = false;
  bool are_events_over_ = false;
  bool is_finished_ = false;
  std::optional<EndedJob> ended_;
  int stop_signal_ = 0;  // by which we have stopped the job
  int stops_ = 0;
  std::optional<int> own_code_;  // that counts instead of the job's
  int exit_code_ = 125;
};

// The outcome as hvdrun's own report takes it; `stop_signal`: by which the asker has stopped the job, 0: none.
launcherd::JobOutcome outcome_of(const EndedJob& ended, int stop_signal);

}  // namespace muster::cli::verbs
