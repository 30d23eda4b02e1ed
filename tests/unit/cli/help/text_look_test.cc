#include "cli/help/text_look.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::cli::text_look_test {
namespace {

std::size_t columns(const Screen& screen, const char* named = "") {
  base::Environment environment;
  environment.set("COLUMNS", named);
  return look_of(screen, ColorWhen::kAuto, environment).columns;
}

TEST(TextLook, TakesTheWidthOfTheTerminal) {
  EXPECT_EQ(columns({.is_terminal = true, .rows = 24, .columns = 72}, "100"), 72u);
  EXPECT_EQ(columns({.is_terminal = true}, "100"), 100u);
  EXPECT_EQ(columns({.is_terminal = true}), 80u);
  EXPECT_EQ(columns({}), 96u);
  EXPECT_EQ(columns({}, "70"), 70u);
  EXPECT_EQ(columns({}, "wide"), 96u);
  EXPECT_EQ(columns({}, "0"), 96u);
}

TEST(TextLook, IsNeitherNarrowNorEndless) {
  EXPECT_EQ(columns({.is_terminal = true, .rows = 24, .columns = 20}), 60u);
  EXPECT_EQ(columns({.is_terminal = true, .rows = 24, .columns = 400}), 110u);
}

TEST(TextLook, APipeIsNoScreen) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Screen screen = screen_of(ends[1]);
  EXPECT_FALSE(screen.is_terminal);
  EXPECT_EQ(screen.rows, 0u);
  EXPECT_EQ(screen.columns, 0u);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace muster::cli::text_look_test
