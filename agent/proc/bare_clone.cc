#include "agent/proc/bare_clone.h"

#include <linux/sched.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "agent/proc/raw_syscall.h"

namespace muster::agent::inline proc {
namespace {

constexpr std::size_t kStackBytes = 64u << 10;
constexpr std::size_t kGuardBytes = 64u << 10;  // the largest page size of the supported platforms

char* at_offset(void* base, std::size_t offset) {
  return static_cast<char*>(base) + offset;
}

// clone3(2) with a stack. The child must not return from the system call's frame, so this code jumps to the function
// itself.
MUSTER_BARE long clone3_call(clone_args* args, int (*function)(void*), void* argument) {
#if defined(__x86_64__)
  long result = 0;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %[argument], %%rdi\n\t"
      "call *%[function]\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(static_cast<long>(SYS_clone3)), "D"(args),
        "S"(sizeof(clone_args)), [function] "r"(function), [argument] "r"(argument)
      : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = SYS_clone3;
  register long x0 __asm__("x0") = raw_arg(args);
  register long x1 __asm__("x1") = sizeof(clone_args);
  register long x9 __asm__("x9") = reinterpret_cast<long>(function);
  register long x10 __asm__("x10") = raw_arg(static_cast<char*>(argument));
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, #0\n\t"
      "mov x30, #0\n\t"
      "mov x0, x10\n\t"
      "blr x9\n\t"
      "brk #0\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x9), "r"(x10)
      : "memory");
  return x0;
#endif
}

base::Status clone_error(int errno_value) {
  if (errno_value == EAGAIN) {
    return base::resource_exhausted(
        "cannot create a process: the limit on processes is reached (ulimit -u, or the pids cgroup)");
  }
  return base::errno_error(errno_value, "cannot create a process");
}

}  // namespace

base::Result<ChildStack> ChildStack::create() {
  void* mapping = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return base::errno_error(errno, "map a stack for new processes");
  ChildStack stack(mapping);
  if (::mprotect(mapping, kGuardBytes, PROT_NONE) != 0) return base::errno_error(errno, "guard a stack");
  return stack;
}

ChildStack::~ChildStack() {
  if (mapping_ != nullptr) ::munmap(mapping_, kGuardBytes + kStackBytes);
}

ChildStack::ChildStack(ChildStack&& other) noexcept : mapping_(std::exchange(other.mapping_, nullptr)) {}

ChildStack& ChildStack::operator=(ChildStack&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  return *this;
}

void* ChildStack::bottom() const {
  return at_offset(mapping_, kGuardBytes);
}

void* ChildStack::top() const {
  return at_offset(mapping_, kGuardBytes + kStackBytes);
}

std::size_t ChildStack::size() const {
  return kStackBytes;
}

base::Result<BareChild> vfork_bare(int (*function)(void*), void* argument, const ChildStack& stack, int cgroup_fd) {
  int pidfd = -1;
  if (cgroup_fd < 0) {
    const int pid = ::clone(function, stack.top(), CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, argument, &pidfd);
    if (pid < 0) return clone_error(errno);
    return BareChild{pid, base::UniqueFd(pidfd)};
  }
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.stack = reinterpret_cast<std::uintptr_t>(stack.bottom());
  args.stack_size = stack.size();
  args.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  const long pid = clone3_call(&args, function, argument);
  if (pid == -ENOSYS || pid == -E2BIG || pid == -EINVAL || pid == -EPERM) {
    return base::unimplemented("this kernel cannot create a process in a cgroup");
  }
  if (pid < 0) return clone_error(static_cast<int>(-pid));
  return BareChild{static_cast<pid_t>(pid), base::UniqueFd(pidfd)};
}

MUSTER_BARE __attribute__((noinline)) static long fork_and_run(int (*function)(void*), void* argument, int* pidfd) {
#if defined(__x86_64__) || defined(__aarch64__)
  // The arguments are clone(flags, stack, parent_tid, …). Without CLONE_VM the copy continues here, with its own
  // stack.
  const long pid = raw_syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, raw_arg(pidfd));
#endif
  if (pid == 0) {
    function(argument);
    while (true) raw_syscall(SYS_exit_group, 127);
  }
  return pid;
}

base::Result<BareChild> fork_bare(int (*function)(void*), void* argument) {
  int pidfd = -1;
  const long pid = fork_and_run(function, argument, &pidfd);
  if (pid < 0) return clone_error(static_cast<int>(-pid));
  return BareChild{static_cast<pid_t>(pid), base::UniqueFd(pidfd)};
}

}  // namespace muster::agent::proc
