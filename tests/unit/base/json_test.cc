#include "base/json.h"

#include <gtest/gtest.h>

namespace muster::base::json_test {
namespace {

TEST(Json, ParsesAllKinds) {
  const auto parsed = parse_json(
      " { \"number\" : -12 , \"text\":\"a\\\"b\\n\\u00e9\\u20ac\\ud83d\\ude00\", "
      "\"yes\":true,\"no\":false,\"none\":null,"
      "\"list\":[1, 2.5e-3,[] ,{}], \"number\":7 }\r\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->kind, JsonNode::Kind::kObject);
  EXPECT_EQ(parsed->number_at("number"), -12) << "the first one counts";
  EXPECT_EQ(parsed->text_at("text"), "a\"b\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_TRUE(parsed->is_true_at("yes"));
  EXPECT_FALSE(parsed->is_true_at("no"));
  EXPECT_EQ(parsed->find("none")->kind, JsonNode::Kind::kNull);
  const auto& list = parsed->array_at("list");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].whole_number(), 1);
  EXPECT_EQ(list[1].text, "2.5e-3");
  EXPECT_EQ(list[1].whole_number(), std::nullopt);
  EXPECT_TRUE(list[2].items.empty());
}

TEST(Json, WrongKindsAreNothing) {
  const auto parsed = parse_json("{\"a\":\"1\",\"b\":1,\"c\":[]}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->number_at("a"), std::nullopt);
  EXPECT_EQ(parsed->text_at("b"), "");
  EXPECT_TRUE(parsed->array_at("a").empty());
  EXPECT_FALSE(parsed->is_true_at("b"));
  EXPECT_EQ(parsed->find("d"), nullptr);
  EXPECT_EQ(parsed->find("c")->find("a"), nullptr);
  EXPECT_EQ(parse_json("9223372036854775808")->whole_number(), std::nullopt) << "it does not fit";
  EXPECT_EQ(parse_json("-9223372036854775808")->whole_number(), INT64_MIN);
}

TEST(Json, HalfASurrogatePairIsReplaced) {
  EXPECT_EQ(parse_json("\"\\ud83dx\"")->text, "\xef\xbf\xbdx");
  EXPECT_EQ(parse_json("\"\\ud83d\\u0041\"")->text,
            "\xef\xbf\xbd"
            "A");
  EXPECT_EQ(parse_json("\"\\ude00\"")->text, "\xef\xbf\xbd");
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* bad :
       {"",         " ",          "{",     "[",    "[1",      "[1,]",      "{\"a\"}",     "{\"a\":}",
        "{a:1}",    "{\"a\":1,}", "tru",   "nul",  "01",      "-",         "1.",          "1e",
        "+1",       ".5",         "\"",    "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud83d\\u1\"",
        "\"a\nb\"", "1 2",        "[1 2]", "'a'",  "NaN",     "{\"a\":1]", "[}"}) {
    const auto parsed = parse_json(bad);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << bad;
  }
  EXPECT_NE(parse_json("[1, x]").status().message().find("byte 4"), std::string::npos);
}

TEST(Json, Limits) {
  EXPECT_TRUE(parse_json("[[[]]]", {.depth = 3}).ok());
  EXPECT_EQ(parse_json("[[[]]]", {.depth = 2}).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(parse_json(std::string(100'000, '[')).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(parse_json("[1,2]", {.values = 3}).ok());
  EXPECT_EQ(parse_json("[1,2]", {.values = 2}).status().code(), Code::kResourceExhausted);
}

TEST(Json, QuotedTextReadsBackTheSame) {
  const std::string text = "a\"b\\c\n\x01\xc3\xa9";
  const auto parsed = parse_json(json_quoted(text));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->text, text);
  EXPECT_EQ(json_quoted("\xff"), "\"\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace muster::base::json_test
