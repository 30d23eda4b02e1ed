// The scripts for shells. tests/e2e/test_13_command_line.py presses TAB in real shells.
#include "cli/help/completion_script.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::completion_script_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CompletionScript, AsksTheProgramInEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = completion_script(shell, "muster");
    ASSERT_TRUE(script) << shell;
    EXPECT_THAT(*script, HasSubstr("__complete")) << shell;
    EXPECT_THAT(*script, Not(HasSubstr("PROGRAM"))) << shell;
    EXPECT_LT(std::ranges::count(*script, '\n'), 50) << shell;
  }
}

TEST(CompletionScript, IsForOneProgram) {
  EXPECT_THAT(*completion_script("bash", "hvdrun"), HasSubstr("-F _hvdrun hvdrun"));
  EXPECT_THAT(*completion_script("zsh", "hvdrun"), HasSubstr("#compdef hvdrun\n"));
  EXPECT_THAT(*completion_script("fish", "hvdrun"), HasSubstr("complete -c hvdrun "));
  EXPECT_FALSE(completion_script("tcsh", "hvdrun"));
}

}  // namespace
}  // namespace muster::cli::completion_script_test
