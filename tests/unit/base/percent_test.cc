#include "base/percent.h"

#include <gtest/gtest.h>

namespace muster::base::percent_test {
namespace {

TEST(HexDigit, KnowsBothCases) {
  EXPECT_EQ(hex_digit('0'), 0);
  EXPECT_EQ(hex_digit('9'), 9);
  EXPECT_EQ(hex_digit('a'), 10);
  EXPECT_EQ(hex_digit('F'), 15);
  for (const char c : {'g', 'G', '/', ':', '@', '`', ' ', '\0', '\xff'}) EXPECT_EQ(hex_digit(c), std::nullopt) << c;
}

TEST(DecodePercent, DecodesEscapes) {
  EXPECT_EQ(decode_percent(""), "");
  EXPECT_EQ(decode_percent("a b+c"), "a b+c");
  EXPECT_EQ(decode_percent("Bearer%20T%2c%2C"), "Bearer T,,");
  EXPECT_EQ(decode_percent("%00%ff"), std::string("\0\xff", 2));
  EXPECT_EQ(decode_percent("%25%32%30"), "%20") << "decodes once";
}

TEST(DecodePercent, RefusesOtherForms) {
  for (const char* const text : {"%", "%4", "a%", "%g1", "%1g", "%%41", "% 1"}) {
    EXPECT_EQ(decode_percent(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace muster::base::percent_test
