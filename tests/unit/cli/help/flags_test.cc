#include "cli/help/flags.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "cli/options/hvdrun_flags.h"
#include "model/rank_env.h"

namespace muster::cli::flags_test {
namespace {

TEST(HvdrunFlags, SpellingsNamesAndKeysAreUnique) {
  std::set<std::string_view> spellings;
  std::set<std::string_view> names;
  std::set<std::string> keys;
  for (const Flag& flag : hvdrun_flags().flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    if (flag.is_setting()) {
      EXPECT_TRUE(keys.insert(flag.config_key).second) << flag.config_key;
    }
    for (const Spelling& spelling : flag.spellings) {
      EXPECT_TRUE(spellings.insert(spelling.text).second) << spelling.text;
      EXPECT_EQ(hvdrun_flags().find(spelling.text)->flag, &flag);
    }
  }
}

TEST(HvdrunFlags, ValuesAndTheirNamesBelongTogether) {
  for (const Flag& flag : hvdrun_flags().flags()) {
    EXPECT_EQ(flag.is_switch(), flag.value_name.empty()) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
    EXPECT_EQ(flag.help.back(), '.') << flag.name;
    EXPECT_EQ(flag.answer != Answer::kNone, !flag.answer_text.empty()) << flag.name;
    if (!flag.choices.empty() && !flag.standard.empty()) {
      EXPECT_NE(std::ranges::find(flag.choices, flag.standard), flag.choices.end()) << flag.name;
    }
    for (const Spelling& spelling : flag.spellings) {
      EXPECT_TRUE(spelling.text.starts_with('-')) << spelling.text;
      if (flag.is_switch()) {
        EXPECT_TRUE(spelling.value == "true" || spelling.value == "false") << spelling.text;
      }
    }
  }
}

// A rank that calls hvdrun must not find its own number taken for an option.
TEST(HvdrunFlags, NoVariableOfARankSetsAnOption) {
  for (const Flag& flag : hvdrun_flags().flags()) {
    if (!flag.variable().empty()) {
      EXPECT_FALSE(model::is_rank_variable(flag.variable())) << flag.variable();
    }
  }
  EXPECT_EQ(hvdrun_flags().named("num-proc").variable(), "MUSTER_NUM_PROC");
  EXPECT_EQ(hvdrun_flags().named("env").variable(), "");
  EXPECT_EQ(hvdrun_flags().named("help").variable(), "");
}

TEST(HvdrunFlags, NearestIsByLettersOrByAbbreviation) {
  EXPECT_EQ(hvdrun_flags().nearest("--num_proc"), "--num-proc");
  EXPECT_EQ(hvdrun_flags().nearest("-npp"), "-np");
  EXPECT_EQ(hvdrun_flags().nearest("--np"), "-np");
  EXPECT_EQ(hvdrun_flags().nearest("--x"), "-x");
  EXPECT_EQ(hvdrun_flags().nearest("-num-proc"), "--num-proc");
  EXPECT_EQ(hvdrun_flags().nearest("--autotune-warmup"), "--autotune-warmup-samples");
  EXPECT_EQ(hvdrun_flags().nearest("--fusion"), "--fusion-threshold-mb");
  EXPECT_EQ(hvdrun_flags().nearest("--completely-else"), std::nullopt);
  EXPECT_FALSE(hvdrun_flags().find("np"));
}

}  // namespace
}  // namespace muster::cli::flags_test
