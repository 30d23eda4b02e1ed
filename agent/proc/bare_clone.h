// Two ways to make a process without libc's fork handlers. A spawn works like vfork, on a stack of its own. A scan is
// a plain copy whose code makes only raw system calls.
// Users: the warden, and after its death an agent with threads.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {

// A stack of 64 KiB with a guard page below. It is the only owner of the mapping.
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

// Runs `function(argument)` in a child that shares our memory. Returns when the child has called execve or has ended.
// All signals must be blocked.
// `cgroup_fd` is a directory of cgroup v2 in which the child starts; -1 means none. UNIMPLEMENTED: the kernel cannot
// do that (before 5.7, or because of seccomp).
base::Result<BareChild> vfork_bare(int (*function)(void*), void* argument, const ChildStack& stack, int cgroup_fd);

// Makes a copy of this process that runs `function(argument)`. The function must make only raw system calls and must
// not return.
base::Result<BareChild> fork_bare(int (*function)(void*), void* argument);

}  // namespace muster::agent::proc
