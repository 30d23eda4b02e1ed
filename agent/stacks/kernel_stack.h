// Reads where a process's threads are in the kernel: state, wait channel, and for root the kernel stack.
// It reads /proc/PID/task. Reading these files never waits for the process.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline stacks {

struct KernelStack {
  pid_t tid = 0;
  std::string name;
  char state = '?';
  std::string wait_channel;         // empty if the thread runs, or if the kernel does not show it to us
  std::vector<std::string> frames;  // innermost first; empty without root
};

// Returns the ids of the threads in order. Empty if the process has ended.
std::vector<pid_t> threads_of(pid_t pid);

// Returns the threads in order of their ids. Empty if the process has ended.
std::vector<KernelStack> read_kernel_stacks(pid_t pid);

// Parses /proc/PID/stack. A line "[<0>] do_select+0x6e1/0x7c0" becomes "do_select".
std::vector<std::string> parse_kernel_stack(std::string_view content);

}  // namespace muster::agent::stacks
