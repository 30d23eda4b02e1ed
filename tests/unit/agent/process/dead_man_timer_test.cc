#include "agent/process/dead_man_timer.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include <gtest/gtest.h>

namespace muster::agent::dead_man_timer_test {
namespace {

using namespace std::chrono_literals;

base::MonotonicTime in(base::Duration time) {
  return std::chrono::steady_clock::now() + time;
}

// Wait status of a child that does this and then exits with 7.
int status_of(const std::function<void()>& what) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    what();
    ::_exit(7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(DeadManTimer, EndsAProcessThatIsStopped) {
  EXPECT_EQ(status_of([] {
              const DeadManTimer timer;
              timer.set(in(50ms));
              ::raise(SIGSTOP);
            }),
            SIGKILL);
}

TEST(DeadManTimer, EndsAProcessThatBlocksAllSignals) {
  EXPECT_EQ(status_of([] {
              sigset_t all;
              ::sigfillset(&all);
              ::sigprocmask(SIG_SETMASK, &all, nullptr);
              const DeadManTimer timer;
              timer.set(in(50ms));
              for (;;) ::pause();
            }),
            SIGKILL);
}

TEST(DeadManTimer, ATimeThatHasPassedIsNow) {
  EXPECT_EQ(status_of([] {
              const DeadManTimer timer;
              timer.set(base::MonotonicTime());
              for (;;) ::pause();
            }),
            SIGKILL);
}

TEST(DeadManTimer, PutOffTakenBackOrGoneItEndsNobody) {
  const auto wait = [] { ::poll(nullptr, 0, 150); };  // longer than the time that was set
  EXPECT_EQ(WEXITSTATUS(status_of([&] {
              const DeadManTimer timer;
              timer.set(in(100ms));
              timer.set(in(1h));
              wait();
            })),
            7);
  EXPECT_EQ(WEXITSTATUS(status_of([&] {
              const DeadManTimer timer;
              timer.set(in(100ms));
              timer.set(std::nullopt);
              wait();
            })),
            7);
  EXPECT_EQ(WEXITSTATUS(status_of([&] {
              {
                const DeadManTimer timer;
                timer.set(in(100ms));
              }
              wait();
            })),
            7);
}

TEST(DeadManTimer, AForkedChildHasNone) {
  EXPECT_EQ(WEXITSTATUS(status_of([] {
              const DeadManTimer timer;
              timer.set(in(1h));
              const int status = status_of([&timer] {
                timer.set(in(0ms));  // a timer that is not there
                ::poll(nullptr, 0, 20);
              });
              if (WEXITSTATUS(status) != 7) ::_exit(1);
            })),
            7);
}

}  // namespace
}  // namespace muster::agent::dead_man_timer_test
