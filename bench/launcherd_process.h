// launcherd as its users run it, for a benchmark: in a process of its own, which ends with this object and also when
// the benchmark's process dies. What it writes to stderr is shown. For the thread that has made it, which must not end
// before it: the kernel ends the child with that thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::bench {

class LauncherdProcess {
 public:
  // Serves `directory`/sock and a port for /metrics, with the hosts of `directory`/hosts and `directory`/state as its
  // state. Returns when it serves.
  static base::Result<std::unique_ptr<LauncherdProcess>> start(const std::string& program,
                                                               const std::string& directory);
  // Killed: its state is thrown away.
  ~LauncherdProcess();
  LauncherdProcess(const LauncherdProcess&) = delete;
  LauncherdProcess& operator=(const LauncherdProcess&) = delete;

  // VmRSS, VmHWM … of /proc/PID/status, in MiB.
  base::Result<double> memory_mib(const std::string& field) const;
  // Processor time of its threads so far, in seconds; /proc counts in hundredths.
  base::Result<double> cpu_seconds() const;
  // The answer to GET /metrics.
  base::Result<std::string> metrics_blocking() const;

 private:
  LauncherdProcess(pid_t pid, base::UniqueFd errors) : pid_(pid), errors_(std::move(errors)) {}
  base::Status wait_until_serving();

  const pid_t pid_;
  base::UniqueFd errors_;
  int http_port_ = 0;
  std::thread shows_errors_;
};

// The value of a metric with just these labels, as /metrics writes it: `muster_agents{state="up"}`. NOT_FOUND: there is
// none.
base::Result<long> metric_of(const std::string& metrics, const std::string& name);

}  // namespace muster::bench
