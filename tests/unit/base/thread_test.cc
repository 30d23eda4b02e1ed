#include "base/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::base::thread_test {
namespace {

TEST(Thread, RunsItsBody) {
  int runs = 0;
  auto thread = start_thread([&] { ++runs; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(check_thread_room(8).ok());
}

// In a child as an ordinary user at its process limit (root has none).
TEST(Thread, IsAnErrorAtTheProcessLimit) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(1);
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    auto thread = start_thread([] {});
    if (thread.ok()) {
      thread->join();
      ::_exit(3);
    }
    if (check_thread_room(1).ok()) ::_exit(5);
    const bool is_said = thread.status().message().find("cannot start a thread") == 0;
    ::_exit(thread.status().code() == Code::kResourceExhausted && is_said ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace muster::base::thread_test
