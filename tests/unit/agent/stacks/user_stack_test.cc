#include "agent/stacks/user_stack.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"

namespace muster::agent::user_stack_test {
namespace {

// Exported names are found in every binary; each waits within its own.
extern "C" __attribute__((noinline)) void stack_test_innermost(int fd) {
  char byte = 0;
  if (::write(fd, &byte, 1) != 1) ::_exit(2);
  while (true) ::pause();
}

extern "C" __attribute__((noinline)) void stack_test_caller(int fd) {
  stack_test_innermost(fd);
  asm volatile("" ::: "memory");  // no tail call
}

// A child that stands in stack_test_innermost in `threads` threads.
class Standing : public testing_support::StandingChild {
 public:
  explicit Standing(int threads)
      : StandingChild(static_cast<std::size_t>(threads), [threads](int fd) {
          for (int i = 1; i < threads; ++i) std::thread(stack_test_caller, fd).detach();
          stack_test_caller(fd);
        }) {}
};

bool has(const UserStack& stack, std::string_view function) {
  return std::ranges::any_of(stack.frames, [&](const UserFrame& frame) { return frame.function == function; });
}

TEST(UserStack, EveryThreadOfAProcess) {
  const Standing child(3);
  ASSERT_TRUE(child.is_ready());
  const auto stacks = read_user_stacks(child.pid());
  ASSERT_TRUE(stacks.ok()) << stacks.status().message();
  int standing = 0;
  for (const auto& [tid, stack] : *stacks) {
    if (!has(stack, "stack_test_caller")) continue;  // a sanitizer's own thread
    ++standing;
    EXPECT_TRUE(has(stack, "stack_test_innermost")) << tid << " " << stack.problem;
    EXPECT_NE(stack.frames.front().module.find(".so"), std::string::npos) << stack.frames.front().module;
  }
  EXPECT_EQ(standing, 3);
}

TEST(UserStack, TheProcessGoesOnAfterwards) {
  const Standing child(1);
  ASSERT_TRUE(child.is_ready());
  for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(read_user_stacks(child.pid()).ok()) << turn;
  ASSERT_EQ(::kill(child.pid(), SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, 0), child.pid());  // a stopped one would not take its TERM
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(UserStack, AProcessThatHasEndedIsAnError) {
  EXPECT_FALSE(read_user_stacks(0x3ffffff0).ok());
}

}  // namespace
}  // namespace muster::agent::user_stack_test
