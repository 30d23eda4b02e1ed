// System calls without libc. Use them in a child that shares its parent's memory, or that was forked from a process
// with threads.
// They touch no errno and no thread-local state, and no sanitizer sees them. They return -errno on failure.
#pragma once

#include <sys/syscall.h>

// Marks functions that run in such a child. They get no instrumentation and no stack protector, because that reads
// thread-local state.
#define MUSTER_BARE                                                                 \
  __attribute__((no_sanitize("address", "undefined", "thread"), no_stack_protector, \
                 optimize("no-tree-loop-distribute-patterns")))
#if defined(__clang__)
#undef MUSTER_BARE
#define MUSTER_BARE __attribute__((no_sanitize("address", "undefined", "thread"), no_stack_protector, no_builtin))
#endif

namespace muster::agent::inline proc {

#if defined(__x86_64__)
MUSTER_BARE __attribute__((always_inline)) inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0,
                                                                   long d = 0, long e = 0) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  long result = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
MUSTER_BARE __attribute__((always_inline)) inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0,
                                                                   long d = 0, long e = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}
#else
#error "raw_syscall.h: this architecture needs its system call sequence"
#endif

template <typename T>
MUSTER_BARE __attribute__((always_inline)) inline long raw_arg(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

}  // namespace muster::agent::proc
