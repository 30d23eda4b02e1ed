#include "cli/verbs/queue_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::queue_options_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Setting setting(const std::string& label, const std::string& value) {
  Setting setting;
  setting.label = label;
  setting.value = value;
  return setting;
}

TEST(QueueOptions, APriorityIsAWholeNumber) {
  EXPECT_EQ(*read_priority(setting("--priority", "-3")), -3);
  for (const char* const value : {"", "x", "1.5", "99999999999"}) {
    EXPECT_THAT(read_priority(setting("--priority", value)).status().message(),
                StartsWith("--priority must be a whole"));
  }
}

TEST(QueueOptions, ADeadlineIsATimeFromNowOrOfTheDay) {
  const base::WallTime now{std::chrono::seconds(1'782'000'000)};
  EXPECT_EQ(read_deadline(setting("--deadline", "2h"), now)->seconds(), 1'782'007'200);
  EXPECT_EQ(read_deadline(setting("--deadline", "2026-06-20T17:05:53Z"), now)->seconds(), 1'781'975'153);
  EXPECT_THAT(read_deadline(setting("--deadline", "soon"), now).status().message(), HasSubstr("'soon' is no time"));
}

TEST(QueueOptions, AfterNamesAJobAndItsEnd) {
  const auto ok = read_after(setting("--after", "night"));
  EXPECT_EQ(ok->job(), "night");
  EXPECT_EQ(ok->condition(), v1::DEPENDENCY_CONDITION_OK);
  EXPECT_EQ(read_after(setting("--after", "k7:any"))->condition(), v1::DEPENDENCY_CONDITION_ANY);
  EXPECT_EQ(read_after(setting("--after", "k7:never")).status().message(),
            "--after: unknown condition 'never' after 'k7'; use ok or any");
}

TEST(QueueOptions, AnArrayIsAListOfIndexes) {
  const auto array = read_array(setting("--array", "0-9,20%4"));
  ASSERT_TRUE(array.ok()) << array.status();
  ASSERT_EQ(array->elements_size(), 2);
  EXPECT_EQ(array->elements(1).last(), 20);
  EXPECT_EQ(array->most_at_once(), 4);
  EXPECT_EQ(read_array(setting("--array", "9-0")).status().message(), "--array: the range 9-0 descends");
}

}  // namespace
}  // namespace muster::cli::queue_options_test
