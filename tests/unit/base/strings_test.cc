#include "base/strings.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::base::strings_test {
namespace {

using ::testing::ElementsAre;

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a", ','), ElementsAre("a"));
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
}

TEST(Join, IsTheOtherWayRound) {
  const std::vector<std::string> parts = {"a", "", "b"};
  EXPECT_EQ(join(parts, ", "), "a, , b");
  EXPECT_EQ(join({}, ","), "");
}

TEST(Trim, TakesBlanksAtBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(StartsWithAny, Looks) {
  constexpr std::array<std::string_view, 2> kPrefixes = {"SSH_", "XDG_"};
  EXPECT_TRUE(starts_with_any("XDG_DATA", kPrefixes));
  EXPECT_FALSE(starts_with_any("XDG", kPrefixes));
}

TEST(ParseDecimal, TakesWholeNumbersOnly) {
  EXPECT_EQ(parse_decimal("0", 0), 0);
  EXPECT_EQ(parse_decimal("007", 10), 7);
  EXPECT_EQ(parse_decimal("65535", 65535), 65535);
  EXPECT_EQ(parse_decimal("9223372036854775807", std::numeric_limits<long>::max()), std::numeric_limits<long>::max());
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1a", "0x1", "1.0"}) {
    EXPECT_EQ(parse_decimal(text, 100), std::nullopt) << text;
  }
  EXPECT_EQ(parse_decimal("65536", 65535), std::nullopt);
  EXPECT_EQ(parse_decimal("9", 5), std::nullopt);
  EXPECT_EQ(parse_decimal("9223372036854775808", std::numeric_limits<long>::max()), std::nullopt);
  EXPECT_EQ(parse_decimal("99999999999999999999999", std::numeric_limits<long>::max()), std::nullopt);
}

TEST(ShellQuote, LeavesPlainWordsAndQuotesTheRest) {
  EXPECT_EQ(shell_quote("a-b_c./:=,@%+9"), "a-b_c./:=,@%+9");
  EXPECT_EQ(shell_quote(""), "''");
  EXPECT_EQ(shell_quote("a b"), "'a b'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote("$(x)\n~*"), "'$(x)\n~*'");
}

TEST(NearestWord, FindsTyposOnly) {
  const std::vector<std::string> words = {"--hosts", "--hostfile", "--timeout"};
  EXPECT_EQ(nearest_word("--host", words), "--hosts");
  EXPECT_EQ(nearest_word("--tiemout", words), "--timeout");
  EXPECT_EQ(nearest_word("--hosts", words), "--hosts");
  EXPECT_EQ(nearest_word("--banana", words), std::nullopt);
  EXPECT_EQ(nearest_word("", words), std::nullopt);
  EXPECT_EQ(nearest_word("x", {}), std::nullopt);
}

TEST(NumberList, RangesAndNumbersOnceAndInOrder) {
  const auto list = [](std::string_view text) { return parse_number_list(text, 100).value_or(std::vector<int>{-1}); };
  EXPECT_EQ(list(""), std::vector<int>());
  EXPECT_EQ(list("7"), (std::vector<int>{7}));
  EXPECT_EQ(list("8,0-3,2"), (std::vector<int>{0, 1, 2, 3, 8}));
  for (const char* wrong : {",", "1,", "-1", "3-1", "1-", "a", "1 2", "101", "0-101", "0x1", "1--2"}) {
    EXPECT_EQ(parse_number_list(wrong, 100), std::nullopt) << wrong;
  }
}

TEST(Printable, EscapesControlBytes) {
  EXPECT_EQ(printable("a\x1b[0m\n\x7f"), "a\\x1b[0m\\x0a\\x7f");
  EXPECT_EQ(printable("ü"), "ü");
  EXPECT_EQ(printable("\xc2\x9b\xc2\x80\xc2\xa0"), "\\xc2\\x9b\\xc2\\x80\xc2\xa0");
  EXPECT_EQ(printable("a\xe2\x80\xae\xe2\x81\xa6 \xe2\x80\xa6 \xe2\x82\xac"),
            "a\\xe2\\x80\\xae\\xe2\\x81\\xa6 \xe2\x80\xa6 \xe2\x82\xac");
  EXPECT_EQ(printable("\xe2\x80"), "\xe2\x80");  // cut off
}

TEST(ValidUtf8, KeepsWhatIsAndReplacesWhatIsNot) {
  for (const char* good :
       {"", "plain", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(valid_utf8(good), good);
    EXPECT_TRUE(is_utf8(good));
  }
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a" + mark + "b");
  EXPECT_EQ(valid_utf8("\xc3"), mark);  // cut off
  EXPECT_FALSE(is_utf8("\xc3"));
  EXPECT_FALSE(is_utf8("a\xff"));
  EXPECT_EQ(valid_utf8("\xe2\x82"), mark + mark);
  EXPECT_EQ(valid_utf8("\xc0\x80"), mark + mark);  // longer than needed
  EXPECT_EQ(valid_utf8("\xe0\x80\x80"), mark + mark + mark);
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(valid_utf8("\x80"
                       "x"),
            mark + "x");
}

}  // namespace
}  // namespace muster::base::strings_test
