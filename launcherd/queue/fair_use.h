// Fair use of the slots between submitters (launcherd --fair-use): which jobs form a group. job_queue.h has the order.
#pragma once

#include <string>

namespace muster::launcherd::inline queue {

struct FairUse {
  bool is_on = false;
  std::string label{};  // jobs with the same value of this label form a group; empty: jobs of the same user
};

}  // namespace muster::launcherd::queue
