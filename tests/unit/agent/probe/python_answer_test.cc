#include "agent/probe/python_answer.h"

#include <stdio.h>

#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::agent::python_answer_test {
namespace {

TEST(PythonAnswer, IsFoundAmongWhateverElseIsPrinted) {
  const auto answer = parse_python_answer(
      "Welcome to site\nMUSTER-PYTHON \nhello\n"
      "MUSTER-PYTHON 3.11.2 /opt/my env/bin/python3\r\nMUSTER-TORCH 2.1.0+cu121\n\nbye");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->version, "3.11.2");
  EXPECT_EQ(answer->path, "/opt/my env/bin/python3");
  EXPECT_EQ(answer->torch, "2.1.0+cu121");
}

TEST(PythonAnswer, WithoutTorch) {
  const auto answer = parse_python_answer("MUSTER-PYTHON 3.9.1 /usr/bin/python3\nMUSTER-TORCH \n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->torch, "");
}

TEST(PythonAnswer, JunkIsNone) {
  EXPECT_FALSE(parse_python_answer(""));
  EXPECT_FALSE(parse_python_answer("3.11.2\n"));
  EXPECT_FALSE(parse_python_answer("MUSTER-PYTHON \x1b[31m3 /x\n"));
  EXPECT_FALSE(parse_python_answer("MUSTER-PYTHON " + std::string(100, '3') + "\n"));
  EXPECT_EQ(parse_python_answer("MUSTER-PYTHON 3.1 x\nMUSTER-TORCH \x1b[2J\n")->torch, "");
}

// The question itself, put to this machine's python3.
TEST(PythonAnswer, TheQuestionIsAnswered) {
  FILE* pipe = ::popen(("/usr/bin/python3 -c " + base::shell_quote(kPythonQuestion)).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[512];
  for (std::size_t n = 0; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  ASSERT_EQ(::pclose(pipe), 0);
  const auto answer = parse_python_answer(output);
  ASSERT_TRUE(answer) << output;
  EXPECT_EQ(answer->version.substr(0, 2), "3.");
  EXPECT_EQ(answer->path.substr(0, 1), "/");
}

}  // namespace
}  // namespace muster::agent::python_answer_test
