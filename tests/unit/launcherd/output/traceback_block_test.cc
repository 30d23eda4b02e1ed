#include "launcherd/output/traceback_block.h"

#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::launcherd::traceback_block_test {
namespace {

// Returns how many of the lines, from the first on, the block takes.
std::size_t taken(TracebackBlock* block, const std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!block->take(lines[i] + "\n")) return i;
  }
  return lines.size();
}

const std::vector<std::string> kPlain = {"Traceback (most recent call last):", "  File \"a.py\", line 1, in <module>",
                                         "    f()", "ValueError: no"};

TEST(TracebackBlock, TakesOneTracebackToTheLineWithoutIndentation) {
  TracebackBlock block;
  EXPECT_TRUE(block.is_empty());
  EXPECT_FALSE(block.take("before\n"));
  EXPECT_EQ(taken(&block, kPlain), 4U);
  EXPECT_TRUE(block.is_whole());
  EXPECT_FALSE(block.take("after\n"));
  EXPECT_EQ(block.text(),
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nValueError: no\n");
  EXPECT_EQ(block.rest(), "");
  block.clear();
  EXPECT_FALSE(block.take("after\n"));
  EXPECT_TRUE(block.is_empty());
}

TEST(TracebackBlock, TakesChainedTracebacks) {
  for (const char* const chain : {"During handling of the above exception, another exception occurred:",
                                  "The above exception was the direct cause of the following exception:"}) {
    std::vector<std::string> lines = kPlain;
    lines.insert(lines.end(), {"", chain, ""});
    lines.insert(lines.end(), kPlain.begin(), kPlain.end());
    TracebackBlock block;
    EXPECT_EQ(taken(&block, lines), lines.size());
    EXPECT_TRUE(block.is_whole());
    EXPECT_EQ(block.size(), block.text().size());
  }
}

TEST(TracebackBlock, ReturnsTheBlankLineThatChainsNothing) {
  std::vector<std::string> lines = kPlain;
  lines.insert(lines.end(), {"", "next"});
  TracebackBlock block;
  EXPECT_EQ(taken(&block, lines), 5U);
  EXPECT_TRUE(block.text().ends_with("ValueError: no\n"));
  EXPECT_EQ(block.rest(), "\n");
}

TEST(TracebackBlock, EndsAnUnfinishedTracebackAtTheNextHeader) {
  TracebackBlock block;
  EXPECT_TRUE(block.take("Traceback (most recent call last):\n"));
  EXPECT_TRUE(block.take("  File\n"));
  EXPECT_FALSE(block.take("Traceback (most recent call last):\n"));
  EXPECT_FALSE(block.is_whole());
  EXPECT_EQ(block.text(), "Traceback (most recent call last):\n  File\n");
}

TEST(TracebackBlock, TakesAnExceptionGroupAsAWhole) {
  TracebackBlock block;
  EXPECT_EQ(taken(&block, {"  + Exception Group Traceback (most recent call last):", "  |   File \"a.py\", line 1",
                           "  | ExceptionGroup: two (2 sub-exceptions)", "  +-+---------------- 1 ----------------",
                           "    | ValueError: 1", "    +------------------------------------", "next"}),
            6U);
}

TEST(TracebackBlock, HasABound) {
  TracebackBlock block;
  EXPECT_TRUE(block.take("Traceback (most recent call last):\n"));
  const std::string line = fmt::format("  {}\n", std::string(1000, 'x'));
  std::size_t lines = 0;
  while (block.take(line)) ++lines;
  EXPECT_EQ(lines, TracebackBlock::kMaxSize / line.size());
  EXPECT_LE(block.size(), TracebackBlock::kMaxSize);
}

}  // namespace
}  // namespace muster::launcherd::traceback_block_test
