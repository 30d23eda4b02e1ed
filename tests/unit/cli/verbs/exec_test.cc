#include "cli/verbs/exec.h"

#include <gtest/gtest.h>

namespace muster::cli::exec_test {
namespace {

TEST(Exec, NeedsACommandBehindDashes) {
  EXPECT_EQ(run_exec_verb("exec", {"k7"}), 2);
  EXPECT_EQ(run_exec_verb("exec", {"k7", "--"}), 2);
  EXPECT_EQ(run_exec_verb("exec", {"k7", "ps", "-ef"}), 2);
}

TEST(Exec, RefusesWrongWords) {
  EXPECT_EQ(run_exec_verb("exec", {"--rnak", "3", "--", "ps"}), 2);
  EXPECT_EQ(run_exec_verb("exec", {"k7", "-r", "x", "--", "ps"}), 2);
  EXPECT_EQ(run_shell("shell", {"k7", "-r", "-1"}), 2);
}

TEST(Exec, ExplainsItself) {
  EXPECT_EQ(run_exec_verb("exec", {"--help"}), 0);
  EXPECT_EQ(run_shell("shell", {"--help"}), 0);
  EXPECT_FALSE(exec_doc().examples.empty());
  EXPECT_FALSE(shell_doc().examples.empty());
}

}  // namespace
}  // namespace muster::cli::exec_test
