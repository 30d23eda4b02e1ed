// Runs the commands of --notify on launcherd's host, as launcherd's user. Each gets MUSTER_JOB_ID, MUSTER_JOB_STATE and
// MUSTER_EXIT_CODE, and kNotifyLimit. The loop never waits for a command: further ones wait for one of kMostNotifying
// threads.
//
// Owner: JobManager.
// Thread: loop thread only. A command runs on a thread of its own. Destruction kills commands that run; their callbacks
// never run.
//
//   notifier.run({.job = id, .state = model::JobState::kFailed, .exit_code = 3, .command = "mail -s $MUSTER_JOB_ID
//   me"},
//                [](const base::Status& status) { ... });
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/gate.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/bootstrap/worker_pool.h"
#include "model/job_state.h"

namespace muster::launcherd::inline daemon {

inline constexpr std::chrono::seconds kNotifyLimit{60};
inline constexpr int kMostNotifying = 4;

struct Notification {
  base::JobId job;
  model::JobState state{};
  int exit_code = 0;
  std::string command{};  // for /bin/sh
};

class Notifier {
 public:
  explicit Notifier(base::Loop& loop, std::chrono::milliseconds limit = kNotifyLimit)
      : loop_(loop), limit_(limit), workers_(kMostNotifying) {}
  ~Notifier();

  // Calls `done` when the command has ended. An error is one sentence about how it ended.
  void run(Notification notification, std::function<void(const base::Status&)> done);

 private:
  base::Loop& loop_;
  const std::chrono::milliseconds limit_;
  CancelSource cancel_;
  base::Gate gate_;  // precedes the threads, which post through it
  WorkerPool workers_;
};

}  // namespace muster::launcherd::daemon
