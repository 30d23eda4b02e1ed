// Where the threads of a process are as seen from the kernel: state, wait channel, and for root the kernel stack.
// Reads /proc/PID/task; none of these files waits for the process.
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
  std::string wait_channel;         // empty: it runs, or is not shown to us
  std::vector<std::string> frames;  // innermost first; empty without root
};

// In order of thread id; empty: the process has ended.
std::vector<KernelStack> read_kernel_stacks(pid_t pid);

// Of /proc/PID/stack: "[<0>] do_select+0x6e1/0x7c0" is "do_select".
std::vector<std::string> parse_kernel_stack(std::string_view content);

}  // namespace muster::agent::stacks
