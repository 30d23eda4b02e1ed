#include "agent/stacks/kernel_stack.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::kernel_stack_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelStack, NamesAreTakenFromTheKernelsLines) {
  EXPECT_THAT(parse_kernel_stack("[<0>] do_select+0x6e1/0x7c0\n[<0>] entry_SYSCALL_64_after_hwframe+0x6e/0xd8\n"),
              ElementsAre("do_select", "entry_SYSCALL_64_after_hwframe"));
  EXPECT_THAT(parse_kernel_stack("[<0>] nothing_behind_it\n"), ElementsAre("nothing_behind_it"));
  EXPECT_THAT(parse_kernel_stack("[<ffffffff81000000>] old_form+0x1/0x2 [module]\n"), ElementsAre("old_form"));
}

TEST(KernelStack, OtherLinesAreLeftOut) {
  EXPECT_THAT(parse_kernel_stack(""), IsEmpty());
  EXPECT_THAT(parse_kernel_stack("junk\n[\n]\n\n[<0>]\n"), IsEmpty());
}

TEST(KernelStack, ThisThreadRuns) {
  const std::vector<KernelStack> stacks = read_kernel_stacks(::getpid());
  ASSERT_FALSE(stacks.empty());
  EXPECT_EQ(stacks.front().tid, ::getpid());
  EXPECT_EQ(stacks.front().state, 'R');
  EXPECT_FALSE(stacks.front().name.empty());
}

TEST(KernelStack, AProcessThatHasEndedHasNone) {
  EXPECT_THAT(read_kernel_stacks(0x3ffffff0), IsEmpty());
}

}  // namespace
}  // namespace muster::agent::kernel_stack_test
