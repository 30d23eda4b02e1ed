#include "launcherd/store/page_token.h"

#include <limits>

#include <gtest/gtest.h>

namespace muster::launcherd::page_token_test {
namespace {

TEST(PageToken, ComesBack) {
  for (const std::int64_t number : {std::int64_t{1}, std::int64_t{42}, std::numeric_limits<std::int64_t>::max()}) {
    const auto parsed = parse_page_token(page_token(number));
    ASSERT_TRUE(parsed.ok()) << number;
    EXPECT_EQ(*parsed, number);
  }
  EXPECT_EQ(*parse_page_token(""), std::numeric_limits<std::int64_t>::max());  // the first page
}

TEST(PageToken, AnythingElseIsRefused) {
  for (const char* const token : {"1", "below-", "below-0", "below--1", "below-01", "below-1 ",
                                  "below-9223372036854775808", "below-1x", "above-1", "BELOW-1", "' OR 1=1 --"}) {
    const auto parsed = parse_page_token(token);
    ASSERT_FALSE(parsed.ok()) << token;
    EXPECT_EQ(parsed.status().code(), base::Code::kInvalidArgument) << token;
  }
  const auto longest = parse_page_token(std::string(1 << 20, '\n'));
  ASSERT_FALSE(longest.ok());
  EXPECT_LT(longest.status().message().size(), 500u);  // the message does not repeat the whole token
}

TEST(PageToken, OffsetsComeBackAndAreNoNumbersOfJobs) {
  EXPECT_EQ(*parse_offset_token(offset_token(200)), 200);
  EXPECT_EQ(*parse_offset_token(""), 0);
  for (const std::string& token : {std::string("from-0"), std::string("from--1"), page_token(5)}) {
    EXPECT_EQ(parse_offset_token(token).status().code(), base::Code::kInvalidArgument) << token;
  }
  EXPECT_EQ(parse_page_token(offset_token(5)).status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::page_token_test
