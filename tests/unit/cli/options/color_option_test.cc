#include "cli/options/color_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::color_option_test {
namespace {

using ::testing::HasSubstr;

ColorWhen typed(const Words& words, OptionsEnd end = OptionsEnd::kAtFirstWord) {
  return typed_color(words, hvdrun_flags(), end);
}

TEST(ColorOption, IsFoundBesideMistakesAndHelp) {
  EXPECT_EQ(typed({"--hots", "--color", "never"}), ColorWhen::kNever);
  EXPECT_EQ(typed({"--help", "--color=always"}), ColorWhen::kAlways);
  EXPECT_EQ(typed({"-H", "--color", "--color", "never", "--color=always"}), ColorWhen::kAlways);
  EXPECT_EQ(typed({"-H", "--color", "never"}), ColorWhen::kAuto);  // a value of -H, then the command
  EXPECT_EQ(typed({"--color", "sometimes"}), ColorWhen::kAuto);
  EXPECT_EQ(typed({"--color"}), ColorWhen::kAuto);
}

TEST(ColorOption, OneOfTheCommandIsNotOurs) {
  EXPECT_EQ(typed({"ls", "--color", "never"}), ColorWhen::kAuto);
  EXPECT_EQ(typed({"-np", "2", "--", "--color=never"}), ColorWhen::kAuto);
  EXPECT_EQ(typed({"k7", "--color", "never"}, OptionsEnd::kNowhere), ColorWhen::kNever);
}

TEST(ColorOption, UnknownValueIsAMistake) {
  const ParsedHvdrun parsed = parse({"--color", "sometimes", "prog"});
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.text, HasSubstr("--color must be one of auto, always, never, not 'sometimes'"));
  EXPECT_EQ(parse({"--color", "never", "prog"}).options.output.color, ColorWhen::kNever);
}

}  // namespace
}  // namespace muster::cli::color_option_test
