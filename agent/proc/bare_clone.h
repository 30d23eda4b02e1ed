// Two ways to make a process without libc's fork handlers: vfork-like on a stack of its own (a spawn), and a plain copy
// whose code keeps to raw system calls (a scan). Used by the warden and, after its death, by an agent with threads.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {

// 64 KiB with a guard page below. Sole owner of the mapping.
class ChildStack {
 public:
  static base::Result<ChildStack> create();
  ~ChildStack();
  ChildStack(ChildStack&& other) noexcept;
  ChildStack& operator=(ChildStack&& other) noexcept;

  void* bottom() const;  // above the guard page
  void* top() const;
  std::size_t size() const;

 private:
  explicit ChildStack(void* mapping) : mapping_(mapping) {}
  void* mapping_ = nullptr;
};

struct BareChild {
  pid_t pid = 0;
  base::UniqueFd pidfd;  // invalid before Linux 5.2
};

// Runs `function(argument)` in a child that shares our memory, and returns when it has called execve or has ended. All
// signals must be blocked. cgroup_fd: a directory of cgroup v2 in which the child is to be born, -1 for none; where the
// kernel cannot (before 5.7, seccomp), the error is UNIMPLEMENTED.
base::Result<BareChild> vfork_bare(int (*function)(void*), void* argument, const ChildStack& stack, int cgroup_fd);

// A copy of this process that runs `function(argument)`, which must keep to raw system calls and not return.
base::Result<BareChild> fork_bare(int (*function)(void*), void* argument);

}  // namespace muster::agent::proc
