// Facts and services that all sessions of an agent share.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "agent/gpus/job_gpus.h"
#include "base/env.h"
#include "base/loop.h"
#include "base/net.h"

namespace muster::agent::inline job {

// The owner must keep this object for as long as the sessions live.
struct SessionHost {
  base::Loop& loop;
  const base::Environment login_environment;  // the ranks' environment is built on this one
  const std::set<base::IpAddress> addresses;  // the addresses of this host
  const bool verbose = false;
  const HostGpus gpus{};
  // Pids of this process's children that query GPUs now, and of killed ones that are not reaped yet.
  std::function<std::vector<pid_t>()> gpu_helpers = [] { return std::vector<pid_t>(); };
};

}  // namespace muster::agent::job
