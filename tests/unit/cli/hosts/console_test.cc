#include "cli/hosts/console.h"

#include <gtest/gtest.h>

namespace muster::cli::console_test {
namespace {

base::Environment xterm() {
  base::Environment environment;
  environment.set("TERM", "xterm");
  return environment;
}

std::string err_of(const Console& console, int code, std::string_view text) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.reply("prog", {.exit_code = code, .text = text}), code);
  return testing::internal::GetCapturedStderr();
}

TEST(Console, PrintsMistakesToStderrAndAnswersToStdout) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Console console(ColorWhen::kAuto, xterm());
  EXPECT_EQ(console.reply("prog", {.exit_code = 2, .text = "prog: wrong\n"}), 2);
  EXPECT_EQ(console.reply("prog", {.exit_code = 0, .text = "help\n", .is_help = true}), 0);
  EXPECT_EQ(console.fail("prog", 7, "no host: n1"), 7);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "prog: wrong\nprog: no host: n1\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "help\n");
  EXPECT_FALSE(console.marks_errors());
  EXPECT_FALSE(console.look().has_color);
}

TEST(Console, MarksTheNameOfTheProgramIfTold) {
  const Console console(ColorWhen::kAlways, xterm());
  EXPECT_TRUE(console.marks_errors());
  EXPECT_TRUE(console.look().has_color);
  EXPECT_EQ(err_of(console, 2, "muster doctor: wrong: x\n"), "\x1b[1;31mmuster doctor:\x1b[0m wrong: x\n");
  EXPECT_EQ(err_of(console, 2, "no name\n"), "no name\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(console.fail("muster", 2, "wrong"), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\x1b[1;31mmuster:\x1b[0m wrong\n");
}

}  // namespace
}  // namespace muster::cli::console_test
