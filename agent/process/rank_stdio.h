// What a rank gets as stdin, stdout, stderr and for PMI, and the ends that the agent keeps. Made by the warden for one
// spawn.
#pragma once

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

struct RankStdio {
  // For the child, close-on-exec; invalid stdin: the warden's own /dev/null. With a terminal all three are the same
  // one.
  base::UniqueFd child_stdin;
  base::UniqueFd child_stdout;
  base::UniqueFd child_stderr;
  base::UniqueFd child_pmi;  // blocking; invalid: it wants none
  // For the agent, non-blocking. With a terminal stdin and stdout are both its master, and there is no stderr.
  base::UniqueFd stdin_fd;   // invalid with StdinOf::kNull
  base::UniqueFd stdout_fd;  // pipes hold 1 MiB where the kernel allows
  base::UniqueFd stderr_fd;
  base::UniqueFd pmi_fd;

  // RESOURCE_EXHAUSTED and others: no descriptor, no terminal; one sentence.
  static base::Result<RankStdio> create(const SpawnRequest& request);
};

}  // namespace muster::agent::process
