#include "cli/hosts/pager.h"

#include <stdlib.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::cli::pager_test {
namespace {

base::Environment environment_of(std::initializer_list<std::pair<const char*, const char*>> entries) {
  base::Environment environment;
  environment.set("PATH", "/usr/bin:/bin");
  environment.set("TERM", "xterm");
  for (const auto& [name, value] : entries) environment.set(name, value);
  return environment;
}

TEST(Pager, OursWinsAndCatMeansNone) {
  EXPECT_EQ(pager_command(environment_of({{"MUSTER_PAGER", "most"}, {"PAGER", "more"}})), "most");
  EXPECT_EQ(pager_command(environment_of({{"PAGER", "more -e"}})), "more -e");
  EXPECT_EQ(pager_command(environment_of({{"MUSTER_PAGER", ""}, {"PAGER", "more"}})), "");
  EXPECT_EQ(pager_command(environment_of({{"MUSTER_PAGER", " cat "}})), "");
  EXPECT_EQ(pager_command(environment_of({{"PAGER", ""}})), "");
  EXPECT_EQ(pager_command(environment_of({{"PAGER", "more"}, {"TERM", "dumb"}})), "");
}

TEST(Pager, IsLessIfItIsThere) {
  char folder[] = "/tmp/muster-pager-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  EXPECT_EQ(pager_command(environment_of({{"PATH", folder}})), "");
  const std::string less = std::string(folder) + "/less";
  ASSERT_EQ(::symlink("/bin/true", less.c_str()), 0);
  EXPECT_EQ(pager_command(environment_of({{"PATH", folder}})), "less -FRX");
  ::unlink(less.c_str());
  ::rmdir(folder);
}

TEST(Pager, IsForTextsThatAreLongerThanTheScreen) {
  EXPECT_TRUE(fits_screen("a\nb\n", {.is_terminal = true, .rows = 3, .columns = 80}));
  EXPECT_FALSE(fits_screen("a\nb\n", {.is_terminal = true, .rows = 2, .columns = 80}));
  EXPECT_TRUE(fits_screen("a\nb\n", {.is_terminal = true}));
}

std::string shown_by(const std::string& command, std::string_view text, const base::Environment& environment,
                     bool expected = true) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(page(command, text, environment), expected) << command;
  return testing::internal::GetCapturedStdout();
}

TEST(Pager, GetsTheTextAndTheOptionsOfLess) {
  EXPECT_EQ(shown_by("sed s/a/b/; echo $LESS", "aa\n", environment_of({})), "ba\nFRX\n");
  EXPECT_EQ(shown_by("echo $LESS", "", environment_of({{"LESS", "S"}})), "S\n");
}

TEST(Pager, MayEndEarlyOrByASignal) {
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  EXPECT_EQ(shown_by("head -c 3", text, environment_of({})), "xxx");
  EXPECT_EQ(shown_by("exit 3", text, environment_of({})), "");
  EXPECT_EQ(shown_by("kill -INT $$", text, environment_of({})), "");
}

TEST(Pager, ReportsThatItCannotRun) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(shown_by("/nowhere/pager", "text\n", environment_of({}), false), "");
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace muster::cli::pager_test
