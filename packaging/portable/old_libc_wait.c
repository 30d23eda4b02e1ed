/* pthread_cond_clockwait, which is in glibc since 2.30 and hidden here: for programs that are linked with old_libc.py's
 * libraries. Where glibc has it, it is used. An older one waits by the time of day: a clock that is set meanwhile makes
 * it wait longer or shorter. Callers look at their own clock when it returns, so they are asked to every 100 ms. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                                                 clockid_t clock, const struct timespec* until) {
  typedef int Function(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  static Function* volatile newer;
  static volatile char is_known;
  if (!is_known) {
    newer = (Function*)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    __sync_synchronize();
    is_known = 1;
  }
  if (newer != NULL) return newer(condition, mutex, clock, until);
  enum { kSecond = 1000000000, kSlice = 100000000 };
  struct timespec now, end;
  if (clock_gettime(clock, &now) != 0) return EINVAL;
  long long left = (long long)(until->tv_sec - now.tv_sec) * kSecond + (until->tv_nsec - now.tv_nsec);
  if (left <= 0) return ETIMEDOUT;
  const int is_last = left <= kSlice;
  if (!is_last) left = kSlice;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += (long)left;
  if (end.tv_nsec >= kSecond) {
    end.tv_nsec -= kSecond;
    ++end.tv_sec;
  }
  const int result = pthread_cond_timedwait(condition, mutex, &end);
  return result == ETIMEDOUT && !is_last ? 0 : result; /* woken for no reason, which callers expect */
}
