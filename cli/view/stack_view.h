// Formats a process for `muster stacks`.
// Thread: any; pure.
#pragma once

#include <string>

#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

// Returns whole lines. Text of hosts and programs is made printable. A message without a pid shows only its problem.
std::string format_process_stack(const v1::ProcessStack& process);

// Returns one line of proto3 JSON.
std::string process_stack_json(const v1::ProcessStack& process);

}  // namespace muster::cli::view
