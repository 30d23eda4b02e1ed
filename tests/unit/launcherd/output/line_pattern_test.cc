#include "launcherd/output/line_pattern.h"

#include <gtest/gtest.h>

namespace muster::launcherd::line_pattern_test {
namespace {

TEST(LinePattern, TellsBarsFromLines) {
  for (const char* const plain : {"a\n", "\n", "a\r\n", "\033[1;31mred\033[0m\n", "tab\t\n", "\033[38:5:9mx\n"}) {
    EXPECT_FALSE(draws(plain)) << plain;
  }
  for (const char* const bar :
       {"\r 10%\n", "1%\r2%\r\n", "a\b\n", "\033[A\033[2K50%\n", "\033]0;title\007\n", "\033\n", "\033[1\n"}) {
    EXPECT_TRUE(draws(bar)) << bar;
  }
}

TEST(LinePattern, ReplacesNumbers) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {{"loss 0.25", "loss #"},
               {"loss -1.5e-3, lr 1e5", "loss #, lr #"},
               {"n12", "n#"},
               {"2026-11-28", "#-#-#"},
               {"a-1", "a-#"},
               {"1.", "#."},
               {"3e", "#e"},
               {"step 7/10 (70%)", "step #/# (#%)"},
               {"", ""},
               {"no number", "no number"},
               {"1e5x", "#e#x"},
               {"+4 -4 - 4", "# # - #"}};
  for (const auto& [text, expected] : cases) {
    std::string without;
    append_without_numbers(text, &without);
    EXPECT_EQ(without, expected) << text;
  }
}

}  // namespace
}  // namespace muster::launcherd::line_pattern_test
