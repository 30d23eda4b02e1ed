#include "model/exit_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace muster::model::exit_code_test {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Not;

std::vector<int> codes() {
  std::vector<int> all;
  for (const ExitCode& row : kExitCodes) all.push_back(row.cause);
  return all;
}

// These numbers are a contract with users' scripts: see docs/guide/exit-codes.md.
TEST(ExitCodeTable, HasEachCodeOnceInOrder) {
  EXPECT_THAT(codes(), ElementsAre(0, 1, 2, 3, 4, 93, 124, 125, 126, 127, 129, 130, 141, 143));
}

TEST(ExitCodeTable, GivesEachCauseItsCode) {
  EXPECT_EQ(kSuccess, 0);
  EXPECT_EQ(kNotAnswered, 1);
  EXPECT_EQ(kUsageError, 2);
  EXPECT_EQ(kHasSuspects, 3);
  EXPECT_EQ(kHostsSilent, 4);
  EXPECT_EQ(kTimedOut, 124);
  EXPECT_EQ(kMusterFailed, 125);
  EXPECT_EQ(kNotExecutable, 126);
  EXPECT_EQ(kNotFound, 127);
  EXPECT_EQ(kHungUp, 129);
  EXPECT_EQ(kInterrupted, 130);
  EXPECT_EQ(kStdoutClosed, 141);
  EXPECT_EQ(kTerminated, 143);
}

TEST(ExitCodeTable, HasAnOwnSentenceForEachCause) {
  std::set<std::string_view> sentences;
  for (const ExitCode& row : kExitCodes) {
    EXPECT_FALSE(row.sentence.empty()) << row.cause;
    EXPECT_THAT(std::string(row.sentence), Not(EndsWith("."))) << row.cause;
    EXPECT_TRUE(sentences.insert(row.sentence).second) << row.sentence;
  }
}

TEST(ExitSentence, IsThatOfTheTable) {
  for (const ExitCode& row : kExitCodes) EXPECT_EQ(exit_sentence(row.cause), row.sentence);
  static_assert(exit_sentence(kNotFound) == "the command was not found");
}

TEST(ExitSentence, IsEmptyForACodeOfARank) {
  EXPECT_EQ(exit_sentence(5), "");
  EXPECT_EQ(exit_sentence(signal_exit_code(SIGKILL)), "");
}

}  // namespace
}  // namespace muster::model::exit_code_test
