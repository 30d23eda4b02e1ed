#include "agent/stacks/syscall_place.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"

namespace muster::agent::syscall_place_test {
namespace {

TEST(SyscallPlace, ParsesTheLastAddress) {
  EXPECT_EQ(parse_syscall_address("230 0x0 0x0 0x7ffe 0x7ff0 0x0 0x0 0x7ffed4b9ec48 0x7fbb1edd5503\n"),
            0x7fbb1edd5503U);
  EXPECT_EQ(parse_syscall_address("-1 0x7ffed4b9ec48 0x4005d0\n"), 0x4005d0U) << "stopped outside of a system call";
}

TEST(SyscallPlace, HasNoAddressOfAThreadThatRuns) {
  for (const char* const content :
       {"", "running\n", "0", "1 2", "1 0x", "1 0xzz", "1 0x0", "1 0x1ffffffffffffffffff"}) {
    EXPECT_FALSE(parse_syscall_address(content).has_value()) << content;
  }
}

TEST(SyscallPlace, NamesTheFunctionThatWaits) {
  const testing_support::StandingChild child(1, [](int output) {
    if (::write(output, "x", 1) != 1) return;
    while (true) ::pause();
  });
  ASSERT_TRUE(child.is_ready());
  // The child may not have reached pause() yet.
  std::string name;
  while (name.find("pause") == std::string::npos && ::usleep(1000) == 0) name = native_place(child.pid());
  EXPECT_NE(name.find("pause"), std::string::npos) << name;
}

TEST(SyscallPlace, IsUnknownOfAProcessThatHasEnded) {
  EXPECT_EQ(native_place(1073741823), "");
}

}  // namespace
}  // namespace muster::agent::syscall_place_test
