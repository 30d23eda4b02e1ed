#include "agent/io/line_tail.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "agent/io/line_cut.h"

namespace muster::agent::line_tail_test {
namespace {

TEST(WholeLines, EndsBehindTheLastNewlineOrBar) {
  const struct {
    std::string_view text;
    std::size_t size;
  } cases[] = {{"", 0},      {"abc", 0},     {"abc\n", 4},   {"a\nbc", 2},
               {"a\rbc", 2}, {"a\nb\rc", 4}, {"a\rb\nc", 4}, {"\n", 1},
               {"\r", 1},    {"ab\r\n", 4},  {"ab\r\nc", 4}, {std::string_view("\0\n\0", 3), 2}};
  for (const auto& [text, size] : cases) EXPECT_EQ(whole_lines(text), size) << text;
}

std::string tail_of(std::initializer_list<std::string_view> pieces) {
  LineTail tail;
  for (const std::string_view piece : pieces) tail.append(piece);
  return tail.text();
}

TEST(LineTail, ShortTextIsKeptAsItIs) {
  EXPECT_EQ(tail_of({}), "");
  EXPECT_EQ(tail_of({"one\n", "two\n"}), "one\ntwo\n");
  EXPECT_EQ(tail_of({"one\ntw", "o"}), "one\ntwo");
  EXPECT_EQ(tail_of({"\n"}), "\n");
  EXPECT_EQ(tail_of({"\n\nx\n"}), "\n\nx\n");
  EXPECT_EQ(tail_of({"a\n\nb"}), "a\n\nb");
}

TEST(LineTail, OfBarsOnlyTheVisibleRestIsKept) {
  EXPECT_EQ(tail_of({"1%\r2%\r3%\nerror\r\n"}), "3%\nerror\n");
  EXPECT_EQ(tail_of({"1%\r2%\r"}), "2%");
}

TEST(LineTail, TheLastTwentyLines) {
  LineTail tail;
  for (int i = 0; i < 1000; ++i) tail.append("line " + std::to_string(i) + "\n");
  const std::string text = tail.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), LineTail::kMaxLines);
  EXPECT_TRUE(text.starts_with("line 980\n"));
  EXPECT_TRUE(text.ends_with("line 999\n"));
}

std::string last_line_of(std::initializer_list<std::string_view> pieces) {
  LineTail tail(512);
  for (const std::string_view piece : pieces) tail.append(piece);
  return tail.last_line();
}

TEST(LineTail, TheLastLineThatIsNotBlank) {
  EXPECT_EQ(last_line_of({}), "");
  EXPECT_EQ(last_line_of({"one\ntwo\n"}), "two");
  EXPECT_EQ(last_line_of({"one\ntw", "o"}), "two");
  EXPECT_EQ(last_line_of({"one\n  two  \n\n \n"}), "two");
  EXPECT_EQ(last_line_of({"\n\n"}), "");
  EXPECT_EQ(last_line_of({"10%\r20%\r"}), "20%");
}

TEST(LineTail, TheLastLineIsShortAndUtf8) {
  EXPECT_EQ(last_line_of({"x\n", std::string(400, 'a')}), std::string(LineTail::kMaxLine, 'a'));
  EXPECT_EQ(last_line_of({"\xff!"}), "\xef\xbf\xbd!");
  std::string wide = "a";
  for (int i = 0; i < 150; ++i) wide += "é";
  EXPECT_EQ(last_line_of({wide}).size(), LineTail::kMaxLine - 1) << "no half character";
}

TEST(LineTail, NeverMoreThanItsBytes) {
  LineTail tail;
  tail.append(std::string(100'000, 'a'));
  EXPECT_EQ(tail.text(), std::string(LineTail::kMaxBytes, 'a'));
  for (int i = 0; i < 5000; ++i) tail.append("bcd");
  EXPECT_EQ(tail.text().size(), LineTail::kMaxBytes);
  EXPECT_EQ(tail.text().find('a'), std::string::npos);
  LineTail small(10);
  for (int i = 0; i < 5000; ++i) small.append("bcd");
  EXPECT_EQ(small.text(), "dbcdbcdbcd");
}

}  // namespace
}  // namespace muster::agent::line_tail_test
