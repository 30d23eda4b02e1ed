// How `muster stacks` shows a process. Pure.
#pragma once

#include <string>

#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

// Whole lines; what hosts and programs say is made printable. A message without pid is its problem alone.
std::string format_process_stack(const v1::ProcessStack& process);

// One line of proto3 JSON.
std::string process_stack_json(const v1::ProcessStack& process);

}  // namespace muster::cli::view
