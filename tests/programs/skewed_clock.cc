// A library for LD_PRELOAD that shifts the time of day of one host's programs. SKEWED_CLOCK=n2:-60 shifts them by 60 s
// back where the host is named n2, and changes nothing elsewhere. Clocks that count from the boot stay as they are.
//
// Static programs do not notice. Debian's libfaketime is no replacement: with it, Python's time.sleep() fails, or its
// timed waits last too long.
#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <string_view>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Returns 0 on hosts that SKEWED_CLOCK does not name.
std::time_t measure_skew() {
  const char* text = std::getenv("SKEWED_CLOCK");
  std::array<char, 256> host{};
  if (text == nullptr || ::gethostname(host.data(), host.size() - 1) != 0) return 0;
  const std::string_view setting = text;
  const auto colon = setting.find(':');
  if (colon == std::string_view::npos || setting.substr(0, colon) != host.data()) return 0;
  return std::atol(text + colon + 1);
}

std::time_t skew() {
  static const std::time_t value = measure_skew();
  return value;
}

// Returns a deadline of the skewed clock as one of the kernel's. A deadline before 2001 counts from the boot.
const timespec* to_kernel(const timespec* deadline, timespec& room) {
  if (deadline == nullptr || deadline->tv_sec < 1'000'000'000) return deadline;
  room = {deadline->tv_sec - skew(), deadline->tv_nsec};
  return &room;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += skew();
  return result;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static const auto real = next<int(timeval*, void*)>("gettimeofday");
  const int result = real(time, zone);
  if (result == 0) time->tv_sec += skew();
  return result;
}

std::time_t time(std::time_t* result) noexcept {
  static const auto real = next<std::time_t(std::time_t*)>("time");
  const std::time_t now = real(nullptr) + skew();
  if (result != nullptr) *result = now;
  return now;
}

int sem_timedwait(sem_t* semaphore, const timespec* deadline) {
  static const auto real = next<int(sem_t*, const timespec*)>("sem_timedwait");
  timespec room{};
  return real(semaphore, to_kernel(deadline, room));
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* deadline) {
  static const auto real = next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>("pthread_cond_timedwait");
  timespec room{};
  return real(condition, mutex, to_kernel(deadline, room));
}

// Abseil's mutexes wait in the kernel by themselves, until a time of day.
long syscall(long number, ...) noexcept {
  static const auto real = next<long(long, ...)>("syscall");
  std::va_list list;
  va_start(list, number);
  std::array<long, 6> words{};
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  timespec room{};
  if (number == SYS_futex && (words[1] & FUTEX_CLOCK_REALTIME) != 0) {
    words[3] = reinterpret_cast<long>(to_kernel(reinterpret_cast<const timespec*>(words[3]), room));
  }
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // extern "C"
