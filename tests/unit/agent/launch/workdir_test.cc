#include "agent/launch/workdir.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace muster::agent::workdir_test {
namespace {

TEST(WorkdirTest, EachReasonHasItsSentence) {
  EXPECT_EQ(explain_workdir_failure("/a", ENOENT), "the working directory /a does not exist; name another with --wdir");
  EXPECT_EQ(explain_workdir_failure("/a", ENOTDIR),
            "the working directory /a is not a directory; name another with --wdir");
  EXPECT_EQ(explain_workdir_failure("/a", EACCES),
            "this user may not enter the working directory /a; name another with --wdir");
  EXPECT_EQ(explain_workdir_failure("/a", EIO), "cannot enter the working directory /a: Input/output error");
  EXPECT_EQ(explain_workdir_failure("/a\n", EIO).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace muster::agent::workdir_test
