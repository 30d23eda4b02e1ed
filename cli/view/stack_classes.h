// Puts threads with equal stacks into classes, over all ranks of a job. Few classes describe thousands of ranks, and
// the smallest class names the rank that differs from the others.
// Thread: any; pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proto/muster/v1/job.pb.h"

namespace muster::cli::inline view {

struct StackClass {
  std::vector<std::string> python;  // outermost first, as "function (file:line)"
  std::vector<std::string> native;  // outermost first, as "function [module]"
  std::vector<std::string> kernel;  // innermost first
  std::string problem;              // why frames are missing; empty if they are not
  std::string command;              // of a process that the rank has started; empty for the rank's own process
  bool is_main_thread = false;

  std::set<int> ranks;
  std::set<std::string> hosts;
  std::map<std::string, int> states;  // how many threads are in each, as "sleeping in do_select"
  int threads = 0;                    // over all looks
  std::string thread_name;            // of one of them
  std::int64_t pid = 0;               // of one of them
};

struct StackClasses {
  std::vector<StackClass> classes;    // fewest ranks first
  std::vector<std::string> problems;  // sentences about hosts and processes
  int hidden_threads = 0;             // run no Python code in a process that does, and have no native functions
  int looks = 0;                      // how often the processes were looked at
};

// `processes` are sorted by rank. The own process of a rank comes before those that it has started.
StackClasses classify_stacks(const std::vector<v1::ProcessStack>& processes);

// Adds what a later look at the same job has found. Counts of threads add up.
void add_look(const StackClasses& look, StackClasses* all);

// Returns "1 thread" or "4 threads"; after several looks "37 of 80 looks at threads".
std::string format_threads(int threads, int total, int looks);

// A call, and the calls made from it.
struct CallNode {
  std::map<std::string, CallNode> children;  // by their text
  std::set<int> ranks;
  std::set<int> ends;     // ranks with a thread that is in this call itself
  std::set<int> inexact;  // those of `ends` with a thread whose stack has a problem
  int threads = 0;        // over all looks
};

// Returns "rank 3", or "ranks 0-2,7".
std::string format_rank_set(const std::set<int>& ranks);

// Returns sentences about stacks with a problem, which a tree of calls does not show, with their ranks. Fewest ranks
// first.
std::vector<std::string> stack_problems(const std::vector<StackClass>& classes);

// Returns the outermost calls as the children of a node without text. Each stack counts with its Python calls, or with
// its native ones if it has no others.
CallNode call_tree(const std::vector<StackClass>& classes);

}  // namespace muster::cli::view
