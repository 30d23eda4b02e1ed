// Starts a program that the agent carries in itself. It starts from memory; nothing is written to a disk.
// Such a program loads libraries of the host. The agent is fully static and cannot.
//
// Example:
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
  std::string name;                        // its argv[0]; messages use this name
  std::string_view bytes;                  // an ELF file, plain or compressed by xz
  std::vector<std::string> environment{};  // the whole environment of the child: NAME=VALUE entries
  // True if the child writes to our stderr. Otherwise its stderr is /dev/null, as its stdin and stdout are in any case.
  bool keeps_stderr = false;
};

// A child of this process. The caller must end and reap it.
struct CarriedChild {
  pid_t pid = 0;
  // A stream socket. argv[1] is the number of the child's end. The child has no other descriptors but 0, 1 and 2.
  base::UniqueFd socket;
};

// Works with any set of open descriptors in this process, also if 0, 1 or 2 are closed.
base::Result<CarriedChild> start_carried(CarriedProgram program);

}  // namespace muster::agent::process
