// A request for the stacks of a job.
#pragma once

#include <vector>

namespace muster::launcherd::inline run {

struct StackQuery {
  std::vector<int> ranks;  // empty means all
  bool is_native = false;  // native functions also of processes that run Python
};

}  // namespace muster::launcherd::run
