// Stacks of ranks that run Python in one thread, for tests of their views. Eight ranks are on each host.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "proto/muster/v1/job.pb.h"

namespace muster::testing_support {

// `calls` are outermost first, each with its line in `file`.
inline v1::ProcessStack python_rank(int rank, const std::vector<std::pair<std::string, int>>& calls,
                                    const std::string& file = "/home/alice/train.py") {
  v1::ProcessStack process;
  process.set_rank(rank);
  process.set_host(fmt::format("n{}", rank / 8 + 1));
  process.set_pid(1000 + rank);
  process.set_command("python3");
  process.set_python("3.11.2");
  v1::ThreadStack& main = *process.add_threads();
  main.add_tids(process.pid());
  main.set_name("python3");
  main.set_state("S");
  main.set_wait_channel("futex_wait_queue");
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    v1::PythonFrame& frame = *main.add_python();
    frame.set_function(call->first);
    frame.set_file(file);
    frame.set_line(call->second);
  }
  return process;
}

}  // namespace muster::testing_support
