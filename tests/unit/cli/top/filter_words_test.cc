#include "cli/top/filter_words.h"

#include <gtest/gtest.h>

namespace muster::cli::filter_words_test {
namespace {

TEST(FilterWords, AllWordsMustBeThere) {
  EXPECT_TRUE(has_all_words("", {"n1"}));
  EXPECT_TRUE(has_all_words("N1 up", {"n1", "Up"}));
  EXPECT_FALSE(has_all_words("n1 down", {"n1", "up"}));
  EXPECT_FALSE(has_all_words("n1up", {"n1", "up"})) << "a word lies within one text";
}

}  // namespace
}  // namespace muster::cli::filter_words_test
