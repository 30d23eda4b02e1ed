#include "cli/hosts/end_bound.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

namespace muster::cli::end_bound_test {
namespace {

using namespace std::chrono_literals;

int wait_status_of(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

TEST(EndBound, ExitsWithTheJobsCodeWhenTheEndHangs) {
  const int status = wait_status_of([] {
    EndBound end;
    end.arm(20ms, 42);
    for (;;) ::pause();
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(EndBound, LeavesAnEndInTimeAlone) {
  const int status = wait_status_of([] {
    {
      EndBound end;
      end.arm(1h, 42);
    }
    { const EndBound unarmed; }
    ::_exit(3);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

}  // namespace
}  // namespace muster::cli::end_bound_test
