#include "cli/view/stack_svg.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/view/python_ranks.h"

namespace muster::cli::stack_svg_test {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::ProcessStack process_of(int rank, const std::string& function) {
  return testing_support::python_rank(rank, {{"main", 7}, {function, 7}});
}

TEST(StackSvg, WidthsAreSharesOfThreads) {
  const std::string svg =
      stack_svg({process_of(0, "step"), process_of(1, "step"), process_of(2, "step"), process_of(3, "load")});
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 36\"")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_THAT(
      svg,
      HasSubstr("<title>main (train.py:7): ranks 0-3, 4 threads</title><rect x=\"0.00\" y=\"0\" width=\"1200.00\""));
  EXPECT_THAT(
      svg, HasSubstr("<title>load (train.py:7): rank 3, 1 thread</title><rect x=\"0.00\" y=\"18\" width=\"300.00\""));
  EXPECT_THAT(
      svg,
      HasSubstr("<title>step (train.py:7): ranks 0-2, 3 threads</title><rect x=\"300.00\" y=\"18\" width=\"900.00\""));
}

TEST(StackSvg, WidthsAreSharesOfAllLooks) {
  StackClasses all;
  for (const char* const function : {"step", "step", "step", "load"}) {
    add_look(classify_stacks({process_of(0, function)}), &all);
  }
  const std::string svg = stack_svg(all);
  EXPECT_THAT(svg, HasSubstr("<title>load (train.py:7): rank 0, 1 of 4 looks at threads</title><rect x=\"0.00\" "
                             "y=\"18\" width=\"300.00\""));
}

TEST(StackSvg, EscapesTexts) {
  const std::string svg = stack_svg({process_of(0, "<script>\"&\xef\xbf\xbf\x1b")});
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;&quot;&amp;?\\x1b"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(StackSvg, CutsLabelsBetweenCharacters) {
  std::vector<v1::ProcessStack> processes;
  std::string function;
  for (int i = 0; i < 30; ++i) function += "関";
  for (int rank = 0; rank < 20; ++rank) processes.push_back(process_of(rank, function + std::to_string(rank)));
  EXPECT_THAT(stack_svg(processes), HasSubstr(">関関…</text>"));
}

TEST(StackSvg, SaysWhatIsInexactOrMissing) {
  std::vector<v1::ProcessStack> processes = {process_of(0, "step"), process_of(1, "step"), process_of(2, "step")};
  processes[0].mutable_threads(0)->set_python_problem("it ran");
  processes[2].mutable_threads(0)->clear_python();
  processes[2].mutable_threads(0)->set_python_problem("not readable");
  const std::string svg = stack_svg(processes);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 72\"")) << svg;
  EXPECT_THAT(svg, HasSubstr("<title>step (train.py:7): ranks 0-1, 2 threads; inexact here: rank 0</title>"));
  EXPECT_THAT(svg, HasSubstr("y=\"49\">rank 0: it ran<"));
  EXPECT_THAT(svg, HasSubstr("y=\"67\">rank 2: not readable<"));
}

TEST(StackSvg, IsEmptyWithoutStacks) {
  EXPECT_EQ(std::ranges::count(stack_svg(std::vector<v1::ProcessStack>()), '\n'), 2);
}

}  // namespace
}  // namespace muster::cli::stack_svg_test
