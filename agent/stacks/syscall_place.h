// Finds the function of native code that waits in a system call, without stopping its process. The kernel shows where a
// sleeping thread will go on in user space (/proc/PID/syscall). A thread that runs has no such place.
//
// Calls may block for ever if the process hangs in the kernel, or a file that it has mapped is on a host that does not
// answer. So call native_place() in a process of its own (look_report.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent::inline stacks {

// Parses /proc/PID/syscall. Returns the address at which the thread goes on in user space. nullopt if it runs, or if
// the content is malformed.
std::optional<std::uint64_t> parse_syscall_address(std::string_view content);

// Returns the innermost named function of the main thread. Empty if it runs, if the kernel does not show it to us, or
// if the function has no name.
std::string native_place(pid_t pid);

}  // namespace muster::agent::stacks
