#include "cli/top/styled_line.h"

#include <gtest/gtest.h>

namespace muster::cli::styled_line_test {
namespace {

TEST(StyledLine, FitsAndIsHarmless) {
  const StyledLine line{.parts = {{"ab\x1b", TextStyle::kBad}, {"cdef", TextStyle::kGood}}};
  EXPECT_EQ(text_of(fitted(line, 20)), "ab\\x1bcdef");
  EXPECT_EQ(text_of(fitted(line, 8)), "ab\\x1bc…");
  EXPECT_EQ(fitted(line, 8).parts.back(), (StyledText{"c…", TextStyle::kGood}));
  EXPECT_EQ(text_of(fitted(line, 0)), "");
}

TEST(StyledLine, ASelectedLineIsFilled) {
  EXPECT_EQ(text_of(fitted({.parts = {{"ab"}}, .is_selected = true}, 5)), "ab   ");
}

}  // namespace
}  // namespace muster::cli::styled_line_test
