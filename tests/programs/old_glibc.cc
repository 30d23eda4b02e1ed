// A program that is linked for old glibcs, as the agent's helpers are. Checks what packaging/portable/old_libc_*.c does
// in the place of a newer glibc, and prints what is wrong.
#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>

extern "C" int emulated_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
extern "C" void* finds_nothing(void* /*where*/, const char* /*symbol*/) {
  return nullptr;
}

namespace {

int constructed = 0;
struct Counted {
  Counted() { ++constructed; }
};
const Counted counted;

int failures = 0;
void expect(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

bool catches() {
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception& thrown) {
    return std::string(thrown.what()) == "thrown";
  }
}

using Wait = int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

// Waits 150 ms, as libstdc++ does: until its own clock says that the time is over.
bool waits(Wait* wait, clockid_t clock) {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  timespec until{};
  clock_gettime(clock, &until);
  until.tv_nsec += 150'000'000;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  const auto begin = std::chrono::steady_clock::now();
  pthread_mutex_lock(&mutex);
  int result = 0;
  while (result == 0) result = wait(&condition, &mutex, clock, &until);
  pthread_mutex_unlock(&mutex);
  return result == ETIMEDOUT && std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(149);
}

}  // namespace

int main(int, char** argv) {
  expect(constructed == 1, "constructors run once");
  expect(catches(), "exceptions are caught");
  struct stat by_name {};
  struct stat by_descriptor {};
  FILE* const file = std::fopen(argv[0], "r");
  expect(file != nullptr && ::stat(argv[0], &by_name) == 0 && ::fstat(fileno(file), &by_descriptor) == 0 &&
             by_name.st_size > 1000 && by_name.st_size == by_descriptor.st_size &&
             by_name.st_ino == by_descriptor.st_ino && S_ISREG(by_name.st_mode),
         "stat");
  std::string content(4, '\0');
  std::ifstream(argv[0]).read(content.data(), 4);
  expect(content ==
             "\x7f"
             "ELF",
         "streams");
  for (const auto& [number, name] :
       {std::pair{SIGKILL, "KILL"}, {SIGSEGV, "SEGV"}, {SIGIO, "POLL"}, {SIGABRT, "ABRT"}}) {
    expect(std::strcmp(sigabbrev_np(number), name) == 0, name);
  }
  expect(sigabbrev_np(0) == nullptr && sigabbrev_np(1000) == nullptr, "names of no signals");
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  expect(condition.wait_for(lock, std::chrono::milliseconds(20)) == std::cv_status::timeout,
         "a condition variable waits");
  for (const clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
    expect(waits(emulated_clockwait, clock), "waiting without pthread_cond_clockwait");
    expect(waits(pthread_cond_clockwait, clock), "waiting with pthread_cond_clockwait");
  }
  if (failures == 0) std::puts("right");
  return failures == 0 ? 0 : 1;
}
