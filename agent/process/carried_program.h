// Starts a program that the agent carries in itself, from memory: nothing is written to a disk. Such a program loads
// what the agent, which is fully static, cannot: libraries of the host.
//
//   MUSTER_ASSIGN_OR_RETURN(CarriedChild child, start_carried({.name = "muster-gpus", .bytes = helper_program()}));
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline process {

struct CarriedProgram {
  std::string name;                        // its argv[0], as messages name it
  std::string_view bytes;                  // an ELF file, or one that gzip has compressed
  std::vector<std::string> environment{};  // all that it gets; NAME=VALUE
  bool keeps_stderr = false;               // it writes to ours; else it has /dev/null, as its stdin and stdout are
};

// Our child, which is the caller's to end and to reap.
struct CarriedChild {
  pid_t pid = 0;
  base::UniqueFd socket;  // a stream; the other end is the child's descriptor argv[1], all that it has but 0, 1 and 2
};

// Whichever descriptors are free here.
base::Result<CarriedChild> start_carried(CarriedProgram program);

}  // namespace muster::agent::process
