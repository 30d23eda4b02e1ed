#include "base/ids.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace muster::base::ids_test {
namespace {

TEST(JobId, RandomOnesAreWellFormedAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 2000; ++i) {
    const JobId id = JobId::random();
    ASSERT_EQ(id.str().size(), 8u);
    EXPECT_EQ(id.str().find_first_not_of("abcdefghijklmnopqrstuvwxyz234567"), std::string::npos) << id.str();
    EXPECT_NE(id.str().find_first_not_of("234567"), std::string::npos) << "only digits: " << id.str();
    EXPECT_TRUE(seen.insert(id.str()).second);
    EXPECT_EQ(JobId::parse(id.str()).value(), id);
  }
}

TEST(JobId, ParseRefusesTheRest) {
  EXPECT_TRUE(JobId::parse("abcdefg2").ok());
  for (const char* text : {"", "abcdefg", "abcdefgh2", "ABCDEFGH", "abcdefg1", "abcdefg8", "22222222", "abc/efgh",
                           "abcdefg ", "../../.."}) {
    EXPECT_EQ(JobId::parse(text).status().code(), Code::kInvalidArgument) << text;
  }
}

TEST(RandomHex, HasTwoDigitsAByte) {
  EXPECT_EQ(random_hex(0), "");
  const std::string hex = random_hex(32);
  EXPECT_EQ(hex.size(), 64u);
  EXPECT_EQ(hex.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(hex, random_hex(32));
}

}  // namespace
}  // namespace muster::base::ids_test
