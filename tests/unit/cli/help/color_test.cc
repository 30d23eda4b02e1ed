#include "cli/help/color.h"

#include <gtest/gtest.h>

namespace muster::cli::color_test {
namespace {

base::Environment environment_of(std::initializer_list<std::pair<const char*, const char*>> entries) {
  base::Environment environment;
  for (const auto& [name, value] : entries) environment.set(name, value);
  return environment;
}

TEST(Color, OnlyATerminalGetsIt) {
  const auto xterm = environment_of({{"TERM", "xterm"}});
  EXPECT_TRUE(has_color(ColorWhen::kAuto, xterm, true));
  EXPECT_FALSE(has_color(ColorWhen::kAuto, xterm, false));
}

TEST(Color, OptionWinsOverTheEnvironment) {
  const auto none = environment_of({{"TERM", "dumb"}, {"NO_COLOR", "1"}});
  const auto forced = environment_of({{"TERM", "xterm"}, {"CLICOLOR_FORCE", "1"}});
  EXPECT_TRUE(has_color(ColorWhen::kAlways, none, false));
  EXPECT_FALSE(has_color(ColorWhen::kNever, forced, true));
}

TEST(Color, VariablesSwitchItOff) {
  EXPECT_FALSE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "xterm"}, {"NO_COLOR", "0"}}), true));
  EXPECT_TRUE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "xterm"}, {"NO_COLOR", ""}}), true));
  EXPECT_FALSE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "dumb"}}), true));
  EXPECT_FALSE(has_color(ColorWhen::kAuto, environment_of({}), true));
}

TEST(Color, ForceIsForTerminalsOnly) {
  EXPECT_TRUE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "dumb"}, {"CLICOLOR_FORCE", "1"}}), true));
  EXPECT_FALSE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "dumb"}, {"CLICOLOR_FORCE", "0"}}), true));
  EXPECT_FALSE(has_color(ColorWhen::kAuto, environment_of({{"TERM", "xterm"}, {"CLICOLOR_FORCE", "1"}}), false));
  const auto both = environment_of({{"TERM", "xterm"}, {"CLICOLOR_FORCE", "1"}, {"NO_COLOR", "1"}});
  EXPECT_FALSE(has_color(ColorWhen::kAuto, both, true));
}

TEST(Paint, EachLineHasItsOwnCodes) {
  EXPECT_EQ(Paint(true).option("  -n N,\n\n      --num N "), "  \x1b[36m-n N,\x1b[0m\n\n      \x1b[36m--num N\x1b[0m ");
  EXPECT_EQ(Paint(true).heading("Ranks:"), "\x1b[1mRanks:\x1b[0m");
  EXPECT_EQ(Paint(false).error("hvdrun:"), "hvdrun:");
}

}  // namespace
}  // namespace muster::cli::color_test
