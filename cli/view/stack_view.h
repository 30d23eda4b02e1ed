// Formats stacks for `muster stacks`.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "cli/view/stack_classes.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

// Returns whole lines: the classes of equal stacks (stack_classes.h), fewest ranks first. Text of hosts and programs is
// made printable.
std::string format_stack_classes(const StackClasses& all);
std::string format_stack_classes(const std::vector<v1::ProcessStack>& processes);

// Returns whole lines: a tree of calls, in which ranks part where their stacks do. After several looks each call has
// its share of them. Below are remarks about stacks that are inexact or could not be read.
std::string format_stack_tree(const StackClasses& all);
std::string format_stack_tree(const std::vector<v1::ProcessStack>& processes);

// False if a host, a process or the stack of a thread could not be read. A stack that is only inexact counts as read.
bool are_stacks_read(const std::vector<v1::ProcessStack>& processes);

// Returns one line of proto3 JSON.
std::string process_stack_json(const v1::ProcessStack& process);

}  // namespace muster::cli::view
