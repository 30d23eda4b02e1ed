// Runs the jobs of an ensemble on a launcherd of their own: submits them, follows each to its end, and writes their
// output to files.
// Thread: all calls block and run on one thread of their own. Only ended() and cancel() may be called from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/service/api_client.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline ensemble {

struct EnsembleEnd {
  std::string name;
  v1::Job job;                 // the job as launcherd reports it at its end
  std::string output_problem;  // empty if all output of the job is in the job's files
};

class EnsembleRun {
 public:
  struct Events {
    std::function<void(const EnsembleEnd&)> on_end;
    // Reports how many of the submitted jobs have ended.
    std::function<void(std::size_t ended, std::size_t submitted)> on_progress;
  };
  // `output` is an absolute path. The files of each job go to output/NAME/.
  EnsembleRun(launcherd::LauncherAddress launcher, std::string output, bool stops_at_failure, Events events);

  // Runs until every job has ended, or until cancel(). The error means that launcherd refused a job, or does not
  // answer.
  base::Status run_blocking(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs);

  // Call it when the job with this id has ended.
  void ended(const std::string& id);
  void cancel();

 private:
  base::Status submit_all(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs);
  base::Status follow(const std::string& id);
  base::Status write_output(const std::string& id, const std::string& name, int size);
  void kill_the_rest();
  // Blocks until a job ends and returns its id. Empty if cancelled.
  std::string next_ended();

  const launcherd::LauncherAddress launcher_;
  const std::string output_;
  const bool stops_at_failure_;
  const Events events_;
  launcherd::ApiClient client_;
  std::map<std::string, std::string> names_;  // the names of jobs that have not ended, by id
  std::size_t submitted_ = 0;
  bool is_stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> ended_;  // guarded by mutex_, like is_cancelled_
  bool is_cancelled_ = false;
};

}  // namespace muster::cli::ensemble
