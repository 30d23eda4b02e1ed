// Ends this process if its last steps take too long. Muster cannot limit the time of destructors of gRPC and libssh.
// The job's last line is already printed when they run. Thread: any. The destructor removes the bound. Example:
//
//   EndBound end;               // before what it bounds
//   … loop.run();
//   end.arm(10s, exit_code);    // destructors follow
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace muster::cli::inline hosts {

class EndBound {
 public:
  EndBound() = default;
  ~EndBound();
  EndBound(const EndBound&) = delete;
  EndBound& operator=(const EndBound&) = delete;

  // Call it once. The process exits with `exit_code` unless this object is destroyed within `bound`. If no thread can
  // be started, there is no bound.
  void arm(std::chrono::milliseconds bound, int exit_code);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace muster::cli::hosts
