#include "model/job_array.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::job_array_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseArray, ReadsRangesAndTheLimit) {
  EXPECT_EQ(*parse_array("0-99%4"), (ArraySpec{{{0, 99}}, 4}));
  EXPECT_EQ(*parse_array("7"), (ArraySpec{{{7, 7}}, 0}));
  EXPECT_EQ(*parse_array("1,5,7-9"), (ArraySpec{{{1, 1}, {5, 5}, {7, 9}}, 0}));
  for (const char* const text : {"0-99%4", "7", "1,5,7-9", "1000000000"}) {
    EXPECT_EQ(format_array(*parse_array(text)), text);
  }
}

TEST(ParseArray, NamesWhatIsWrong) {
  for (const char* const text : {"", "a", "1-", "-1", "1--2", "1,", "1%", "1%0", "1%x", "1%2%3", "0x1", " 1",
                                 "1000000001", "99999999999999999999"}) {
    const auto array = parse_array(text);
    ASSERT_FALSE(array.ok()) << text;
    EXPECT_EQ(array.status().code(), base::Code::kInvalidArgument) << text;
    EXPECT_THAT(array.status().message(), HasSubstr("0-99%4")) << text;
  }
  EXPECT_EQ(parse_array("9-3").status().message(), "the range 9-3 descends");
  EXPECT_EQ(parse_array("0-9,9").status().message(), "indexes must ascend, and 9 does not");
  EXPECT_EQ(parse_array("0-1000000").status().message(), "1000001 elements are more than 1000000");
  EXPECT_TRUE(parse_array("0-999999").ok());
  std::string many = "0";
  for (int i = 1; i <= 10'000; ++i) many += "," + std::to_string(2 * i);
  EXPECT_EQ(parse_array(many).status().message(), "more than 10000 ranges");
}

TEST(CheckArray, RefusesWhatOnlyTheWireCanHave) {
  EXPECT_EQ(check_array({}).message(), "there are no indexes");
  EXPECT_THAT(check_array({.elements = {{-1, 3}}}).message(), HasSubstr("must be 0 to"));
  EXPECT_THAT(check_array({.elements = {{0, 3}}, .most_at_once = -1}).message(), HasSubstr("negative"));
}

TEST(IndexSet, IsASetOfNumbers) {
  IndexSet indexes(parse_array("0-9,20-29")->elements);
  EXPECT_EQ(indexes.size(), 20);
  EXPECT_EQ(indexes.lowest(), 0);
  EXPECT_TRUE(indexes.remove(5));
  EXPECT_FALSE(indexes.remove(5));
  EXPECT_FALSE(indexes.remove(15));
  EXPECT_THAT(indexes.ranges(), ElementsAre(IndexRange{0, 4}, IndexRange{6, 9}, IndexRange{20, 29}));
  indexes.add(5);
  indexes.add(5);
  EXPECT_THAT(indexes.ranges(), ElementsAre(IndexRange{0, 9}, IndexRange{20, 29}));
  EXPECT_EQ(indexes.size(), 20);
}

// Compares the set with std::set over random steps. The seed is fixed, so a failure repeats.
TEST(IndexSet, HasWhatAPlainSetHas) {
  std::mt19937 random(7);
  IndexSet indexes;
  std::set<int> expected;
  for (int step = 0; step < 2000; ++step) {
    const int index = static_cast<int>(random() % 40);
    if (random() % 2 == 0) {
      indexes.add(index);
      expected.insert(index);
    } else {
      EXPECT_EQ(indexes.remove(index), expected.erase(index) == 1);
    }
    ASSERT_EQ(indexes.size(), static_cast<std::int64_t>(expected.size()));
    if (!expected.empty()) {
      ASSERT_EQ(indexes.lowest(), *expected.begin());
    }
    int last = -2;
    for (const IndexRange& range : indexes.ranges()) {
      ASSERT_GT(range.first, last + 1) << "neighbours are joined";
      last = range.last;
    }
    for (int i = 0; i < 40; ++i) ASSERT_EQ(indexes.contains(i), expected.contains(i));
  }
}

TEST(ShortIndexList, LeavesRangesOut) {
  IndexSet few(parse_array("3,17-18")->elements);
  EXPECT_EQ(short_index_list(few), "3,17-18");
  IndexSet many;
  for (int i = 0; i < 24; i += 2) many.add(i);
  EXPECT_EQ(short_index_list(many), "0,2,4,6,8,10,12,14,16,18 and 2 more ranges");
}

TEST(JobWord, HasAnIndexOnlyInBrackets) {
  EXPECT_EQ(parse_job_word("k7[17]").job, "k7");
  EXPECT_EQ(parse_job_word("k7[17]").index, 17);
  EXPECT_EQ(element_name("k7", 17), "k7[17]");
  for (const char* const text : {"k7", "k7[]", "[3]", "k7[x]", "k7[-1]", "k7[3", "k7[3]x", "k7[99999999999]"}) {
    EXPECT_EQ(parse_job_word(text).job, text);
    EXPECT_FALSE(parse_job_word(text).index) << text;
  }
}

}  // namespace
}  // namespace muster::model::job_array_test
