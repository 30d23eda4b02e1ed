#include "cli/verbs/cp.h"

#include <gtest/gtest.h>

namespace muster::cli::cp_test {
namespace {

TEST(Cp, RefusesWrongWords) {
  EXPECT_EQ(run_cp("cp", {}), 2);
  EXPECT_EQ(run_cp("cp", {"k7:0:a"}), 2);
  EXPECT_EQ(run_cp("cp", {"a", "b"}), 2);
  EXPECT_EQ(run_cp("cp", {"k7:0:a", "k7:0:b"}), 2);
  EXPECT_EQ(run_cp("cp", {"k7:x:a", "b"}), 2);
  EXPECT_EQ(run_cp("cp", {"--recursiv", "a", "k7:0:b"}), 2);
}

TEST(Cp, ExplainsItself) {
  EXPECT_EQ(run_cp("cp", {"--help"}), 0);
  EXPECT_FALSE(cp_doc().examples.empty());
}

}  // namespace
}  // namespace muster::cli::cp_test
