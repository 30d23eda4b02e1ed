#include "cli/options/fold_option.h"

#include <gtest/gtest.h>

namespace muster::cli::fold_option_test {
namespace {

base::Result<Fold> read(const std::string& value) {
  static const std::vector<Flag> kFlags = {fold_row().flag()};
  Settings settings;
  Setting setting;
  setting.flag = &kFlags.front();
  setting.value = value;
  setting.label = "--fold";
  EXPECT_TRUE(settings.add_layer({setting}).ok());
  return read_fold(settings);
}

TEST(FoldOption, ReadsEachWord) {
  EXPECT_EQ(*read_fold(Settings()), Fold::kAuto);
  EXPECT_EQ(*read("auto"), Fold::kAuto);
  EXPECT_EQ(*read("off"), Fold::kOff);
  EXPECT_EQ(*read("on"), Fold::kOn);
  EXPECT_EQ(*read("numbers"), Fold::kNumbers);
}

TEST(FoldOption, RefusesAnotherWord) {
  const auto refused = read("maybe");
  EXPECT_EQ(refused.status().code(), base::Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("--fold"), std::string::npos) << refused.status().message();
}

}  // namespace
}  // namespace muster::cli::fold_option_test
