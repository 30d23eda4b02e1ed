#include "launcherd/output/line_fold.h"

#include <numeric>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/exit_report.h"

namespace muster::launcherd::line_fold_test {
namespace {

using proto::OutputStream;
using std::chrono::milliseconds;

constexpr const char* kTraceback =
    "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: no\n";

std::vector<int> ranks_to(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class LineFoldTest : public ::testing::Test {
 protected:
  explicit LineFoldTest(FoldOptions options = {})
      : fold_(options, [this](const FoldedText& text) {
          shown_ += fmt::format("{}{}|{}", model::format_rank_list(text.ranks),
                                text.stream == OutputStream::kStderr ? "e" : "", text.text);
          if (!text.text.ends_with('\n')) shown_ += '~';
          stamps_.push_back(text.stamp);
        }) {
    fold_.set_ranks(ranks_to(4));
  }

  void write(int rank, std::string_view text, OutputStream stream = OutputStream::kStdout) {
    fold_.write(rank, stream, text, at());
  }
  void write_all(std::string_view text, int from = 0, int to = 4) {
    for (int rank = from; rank < to; ++rank) write(rank, text);
  }
  FoldTime at() const { return {now_, stamp_}; }
  void pass_time(milliseconds by) {
    now_ += by;
    stamp_ += by;
    fold_.advance(at());
  }
  std::string shown() { return std::exchange(shown_, {}); }

  base::MonotonicTime now_{std::chrono::hours(1)};
  base::WallTime stamp_{std::chrono::hours(1000)};
  std::string shown_;
  std::vector<base::WallTime> stamps_;
  LineFold fold_;
};

TEST_F(LineFoldTest, ShowsALineAtOnceWhenAllRanksHaveWrittenIt) {
  write_all("a\n", 0, 3);
  EXPECT_EQ(shown(), "");
  write(3, "a\n");
  EXPECT_EQ(shown(), "0-3|a\n");
  EXPECT_FALSE(fold_.due());
}

TEST_F(LineFoldTest, ShowsALineWhenItsWindowIsOver) {
  write_all("a\n", 1, 3);
  EXPECT_EQ(fold_.due(), now_ + milliseconds(500));
  pass_time(milliseconds(499));
  EXPECT_EQ(shown(), "");
  pass_time(milliseconds(1));
  EXPECT_EQ(shown(), "1-2|a\n");
  write(0, "a\n");
  pass_time(milliseconds(500));
  EXPECT_EQ(shown(), "0|a\n");
}

TEST_F(LineFoldTest, EndsAWindowByTheStampsOfALog) {
  write(0, "a\n");
  stamp_ += milliseconds(600);
  write(1, "a\n");
  EXPECT_EQ(shown(), "0|a\n");
}

TEST_F(LineFoldTest, GivesALineTheTimeOfItsFirstRank) {
  const base::WallTime first = stamp_;
  write(0, "a\n");
  pass_time(milliseconds(100));
  write_all("a\n", 1, 4);
  ASSERT_EQ(stamps_.size(), 1U);
  EXPECT_EQ(stamps_[0], first);
}

TEST_F(LineFoldTest, FoldsManyLinesThatComeAtOnceFromEachRank) {
  write_all("a\nb\nc\n");
  EXPECT_EQ(shown(), "0-3|a\n0-3|b\n0-3|c\n");
}

TEST_F(LineFoldTest, ShowsADifferentLineOnItsOwn) {
  for (int rank = 0; rank < 4; ++rank) write(rank, rank == 1 ? "begin\nother\nend\n" : "begin\nsame\nend\n");
  EXPECT_EQ(shown(), "0-3|begin\n0,2-3|same\n1|other\n0-3|end\n");
}

TEST_F(LineFoldTest, FoldsAfterLinesOfEachRankOfItsOwn) {
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i <= rank; ++i) write(rank, fmt::format("rank {} device {}\n", rank, i));
    write(rank, "loaded\nbegin\n");
  }
  const std::string text = shown();
  EXPECT_NE(text.find("0-3|loaded\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0-3|begin\n"), std::string::npos) << text;
}

TEST_F(LineFoldTest, NeverShowsLinesOfARankInAnotherOrder) {
  write(0, "a\nb\n");
  write(1, "b\na\n");
  write(2, "a\nb\n");
  write(3, "b\na\n");
  fold_.drain();
  const std::string text = shown();
  EXPECT_TRUE(text == "0,2|a\n0-3|b\n1,3|a\n" || text == "1,3|b\n0-3|a\n0,2|b\n") << text;
}

TEST_F(LineFoldTest, FoldsRepeatedLinesOneByOne) {
  for (int i = 0; i < 100; ++i) write(0, "tick\n");
  for (int i = 0; i < 100; ++i) write_all("tick\n", 1, 4);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "0-3|tick\n";
  EXPECT_EQ(shown(), expected);
}

TEST_F(LineFoldTest, KeepsStreamsApart) {
  write_all("a\n", 0, 2);
  write(2, "a\n", OutputStream::kStderr);
  fold_.drain();
  EXPECT_EQ(shown(), "0-1|a\n2e|a\n");
}

TEST_F(LineFoldTest, PassesBarsAndUnfinishedLinesAtOnceBehindEarlierLines) {
  write(0, "a\n");
  write(1, "a\n");
  write(0, "1%\r");
  EXPECT_EQ(shown(), "0-1|a\n0|1%\r~");
  write(0, "2%\r");
  write(0, "done\nb\n");
  EXPECT_EQ(shown(), "0|2%\r~0|done\n");
  write(2, "Name: ");
  EXPECT_EQ(shown(), "2|Name: ~");
  write(2, "bob\n");
  EXPECT_EQ(shown(), "2|bob\n");
  write(3, "\033[A50%\n");
  EXPECT_EQ(shown(), "3|\033[A50%\n");
  fold_.drain();
  EXPECT_EQ(shown(), "0|b\n");
}

TEST_F(LineFoldTest, FoldsColouredLinesUnchanged) {
  write_all("\033[31mred\033[0m\n");
  EXPECT_EQ(shown(), "0-3|\033[31mred\033[0m\n");
}

TEST_F(LineFoldTest, ShowsAnEqualTracebackOnceAndWhole) {
  for (int rank = 0; rank < 4; ++rank) {
    for (const std::string_view line : base::split(std::string_view(kTraceback), '\n')) {
      if (!line.empty()) write(rank, std::string(line) + "\n", OutputStream::kStderr);
    }
    write((rank + 1) % 4, "between\n");
  }
  for (int rank = 0; rank < 4; ++rank) fold_.end_rank(rank);
  EXPECT_EQ(shown(), fmt::format("0-3|between\n0-3e|{}", kTraceback));
}

TEST_F(LineFoldTest, ShowsAnUnfinishedTracebackWhenItsWindowIsOver) {
  write(0, "Traceback (most recent call last):\n  File\n");
  EXPECT_EQ(fold_.due(), now_ + milliseconds(500));
  pass_time(milliseconds(500));
  EXPECT_EQ(shown(), "0|Traceback (most recent call last):\n  File\n");
}

TEST_F(LineFoldTest, ShowsATracebackNoLaterThanTheWindowAfterItsFirstLine) {
  write(1, "early\n");
  pass_time(milliseconds(100));
  write(0, "Traceback (most recent call last):\n");
  pass_time(milliseconds(300));
  write(2, "later\n");
  write(0, "ValueError: no\n\nnext\n");
  pass_time(milliseconds(200));
  EXPECT_EQ(shown(), "1|early\n0|Traceback (most recent call last):\nValueError: no\n0|\n");
  pass_time(milliseconds(300));
  EXPECT_EQ(shown(), "2|later\n0|next\n");
}

TEST_F(LineFoldTest, FoldsTracebacksWithThePrefixOfPyTorch) {
  for (int rank = 0; rank < 4; ++rank) {
    write(rank,
          fmt::format("[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File\n[rank{0}]: E: no\n", rank));
  }
  fold_.drain();
  EXPECT_EQ(shown(), "0-3|Traceback (most recent call last):\n  File\nE: no\n");
  write(2, "[rank2]: alone\n[rank3]: of another\n");
  fold_.drain();
  EXPECT_EQ(shown(), "2|[rank2]: alone\n2|[rank3]: of another\n");
}

TEST_F(LineFoldTest, WaitsNoLongerForARankThatHasEnded) {
  write_all("a\n", 0, 3);
  fold_.end_rank(3);
  EXPECT_EQ(shown(), "0-2|a\n");
  write_all("b\n", 0, 2);
  fold_.end_rank(0);
  EXPECT_EQ(shown(), "");
  write(2, "b\n");
  EXPECT_EQ(shown(), "0-2|b\n");
  write(1, "c\n");
  fold_.end_rank(1);
  EXPECT_EQ(shown(), "");
  fold_.end_rank(2);
  EXPECT_EQ(shown(), "1|c\n");
}

TEST_F(LineFoldTest, FoldsInTheNextAttempt) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    write_all("a\n");
    for (int rank = 0; rank < 4; ++rank) fold_.end_rank(rank);
    EXPECT_EQ(shown(), "0-3|a\n");
  }
}

TEST_F(LineFoldTest, CountsASpawnedRankFromItsFirstLineOn) {
  write(7, "hello\n");
  write_all("a\n");
  EXPECT_EQ(shown(), "");
  write(7, "a\n");
  EXPECT_EQ(shown(), "7|hello\n0-3,7|a\n");
}

TEST_F(LineFoldTest, WaitsForTheWindowIfTheRanksAreUnknown) {
  fold_.set_ranks({});
  write_all("a\n");
  EXPECT_EQ(shown(), "");
  pass_time(milliseconds(500));
  EXPECT_EQ(shown(), "0-3|a\n");
}

class SmallFoldTest : public LineFoldTest {
 protected:
  SmallFoldTest() : LineFoldTest({.most_lines = 3, .most_bytes = 4096}) {}
};

TEST_F(SmallFoldTest, ShowsTheOldestLinesAboveTheBounds) {
  write(0, "a\nb\nc\n");
  EXPECT_EQ(shown(), "");
  write(0, "d\n");
  EXPECT_EQ(shown(), "0|a\n");
  const std::string big = fmt::format("{}\n", std::string(3000, 'x'));
  write(1, big);
  EXPECT_EQ(shown(), "0|b\n");
  write(2, "Traceback (most recent call last):\n");
  for (int i = 0; i < 2; ++i) write(2, fmt::format("  {}\n", std::string(2000, 'y')));
  EXPECT_NE(shown().find(big), std::string::npos);
  fold_.drain();
}

class NumbersFoldTest : public LineFoldTest {
 protected:
  NumbersFoldTest() : LineFoldTest({.ignores_numbers = true}) {}
};

TEST_F(NumbersFoldTest, FoldsLinesThatDifferInTheirNumbers) {
  for (int rank = 0; rank < 4; ++rank) write(rank, fmt::format("step {} loss {}.5e-3\n", rank, rank));
  EXPECT_EQ(shown(), "0-3|step 0 loss 0.5e-3\n");
}

// Random lines of few texts: each rank's lines are shown once and in its order.
TEST(LineFold, LosesNothingAndKeepsTheOrderOfEachRank) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int size = 1 + static_cast<int>(random() % 6);
    std::vector<std::string> written(static_cast<std::size_t>(size));
    std::vector<std::string> shown(static_cast<std::size_t>(size));
    LineFold fold({.most_lines = 1 + random() % 40}, [&](const FoldedText& text) {
      for (const int rank : text.ranks) shown[static_cast<std::size_t>(rank)] += text.text;
    });
    fold.set_ranks(round % 3 == 0 ? std::vector<int>() : ranks_to(size));
    FoldTime at{base::MonotonicTime(std::chrono::hours(1)), base::WallTime(std::chrono::hours(1))};
    for (int i = 0; i < 300; ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(size));
      std::string text;
      for (unsigned line = random() % 4; line > 0; --line)
        text += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
      if (random() % 20 == 0) text += "%\r";
      if (random() % 30 == 0) text += std::string(kTraceback) + "\n";
      written[static_cast<std::size_t>(rank)] += text;
      fold.write(rank, OutputStream::kStdout, text, at);
      if (random() % 5 == 0) at.now += milliseconds(random() % 300);
      if (random() % 40 == 0) fold.end_rank(rank);
    }
    fold.drain();
    EXPECT_EQ(shown, written) << "round " << round;
    EXPECT_FALSE(fold.due());
  }
}

}  // namespace
}  // namespace muster::launcherd::line_fold_test
