#include "cli/verbs/rank_word.h"

#include <gtest/gtest.h>

namespace muster::cli::rank_word_test {
namespace {

TEST(RankWord, IsANumber) {
  EXPECT_EQ(parse_rank("0").value(), 0);
  EXPECT_EQ(parse_rank("1023").value(), 1023);
}

TEST(RankWord, RefusesOtherWords) {
  for (const char* const word : {"", "-1", "x", "3x", " 3", "99999999999999999999"}) {
    EXPECT_FALSE(parse_rank(word).ok()) << word;
  }
  EXPECT_EQ(parse_rank("x\n").status().message(), "'x\\x0a' is not the number of a rank");
}

TEST(RankWord, TellsMistakesOfTheUserFromFailures) {
  EXPECT_TRUE(is_users_mistake(base::not_found("no such job")));
  EXPECT_FALSE(is_users_mistake(base::unavailable("gone")));
  EXPECT_FALSE(is_users_mistake(base::ok_status()));
}

}  // namespace
}  // namespace muster::cli::rank_word_test
