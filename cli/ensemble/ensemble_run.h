// The jobs of an ensemble with a launcherd of their own: given to it, followed to their ends, their output written to
// files. Everything here blocks and runs on one thread of its own, but for ended() and cancel(), which any thread may
// call.
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
  v1::Job job;                 // as launcherd tells it at its end
  std::string output_problem;  // empty: its output is in its files
};

class EnsembleRun {
 public:
  struct Events {
    std::function<void(const EnsembleEnd&)> on_end;
    // How many have ended of those that launcherd has.
    std::function<void(std::size_t ended, std::size_t submitted)> on_progress;
  };
  // `output`: absolute; each job's files go to output/NAME/.
  EnsembleRun(launcherd::LauncherAddress launcher, std::string output, bool stops_at_failure, Events events);

  // Until every job has ended, or cancel(). The error: launcherd refused a job, or is gone.
  base::Status run_blocking(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs);

  // A job of launcherd's, by its id, has ended.
  void ended(const std::string& id);
  void cancel();

 private:
  base::Status submit_all(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs);
  base::Status follow(const std::string& id);
  base::Status write_output(const std::string& id, const std::string& name, int size);
  void kill_the_rest();
  // Empty: cancelled.
  std::string next_ended();

  const launcherd::LauncherAddress launcher_;
  const std::string output_;
  const bool stops_at_failure_;
  const Events events_;
  launcherd::ApiClient client_;
  std::map<std::string, std::string> names_;  // of jobs that have not ended, by id
  std::size_t submitted_ = 0;
  bool is_stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> ended_;  // guarded by mutex_, as is the next
  bool is_cancelled_ = false;
};

}  // namespace muster::cli::ensemble
