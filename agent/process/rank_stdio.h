// The descriptors that a rank gets as stdin, stdout, stderr and for PMI, and the ends that the agent keeps. The
// warden makes one such set for each spawn.
#pragma once

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

struct RankStdio {
  // These go to the child and are close-on-exec. With a terminal the first three are the same terminal. An invalid
  // child_stdin means the warden's own /dev/null.
  base::UniqueFd child_stdin;
  base::UniqueFd child_stdout;
  base::UniqueFd child_stderr;
  base::UniqueFd child_pmi;  // blocking; invalid if the rank wants no PMI
  // These go to the agent and are non-blocking. With a terminal stdin_fd and stdout_fd are both its master, and
  // stderr_fd is invalid.
  base::UniqueFd stdin_fd;   // invalid with StdinOf::kNull
  base::UniqueFd stdout_fd;  // a pipe holds 1 MiB if the kernel allows it
  base::UniqueFd stderr_fd;
  base::UniqueFd pmi_fd;

  // RESOURCE_EXHAUSTED and others, one sentence: no descriptor or no terminal could be made.
  static base::Result<RankStdio> create(const SpawnRequest& request);
};

}  // namespace muster::agent::process
