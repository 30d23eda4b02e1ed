#include "cli/view/stack_view.h"

#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/help/man_page.h"
#include "cli/verbs/stacks.h"
#include "tests/unit/cli/view/python_ranks.h"

namespace muster::cli::stack_view_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::python_rank;

std::vector<v1::ProcessStack> training(int ranks, int suspect) {
  std::vector<v1::ProcessStack> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(rank == suspect ? python_rank(rank, {{"<module>", 230}, {"main", 212}, {"load_batch", 88}})
                                        : python_rank(rank, {{"<module>", 230}, {"main", 220}, {"Model.step", 41}}));
  }
  return processes;
}

v1::ProcessStack native_rank() {
  v1::ProcessStack process;
  process.set_rank(3);
  process.set_host("n2");
  process.set_pid(4242);
  process.set_command("train\x1b[1m");
  v1::ThreadStack& main = *process.add_threads();
  main.add_tids(4242);
  main.set_name("train\x1b[1m");
  main.set_state("S");
  main.set_wait_channel("futex_wait_queue");
  v1::StackFrame& known = *main.add_user();
  known.set_address(0x1000);
  known.set_function("wait_for(int)");
  known.set_module("/usr/lib/libwait.so.1");
  main.add_user()->set_address(0x2000);
  v1::ThreadStack& pool = *process.add_threads();
  pool.add_tids(4243);
  pool.add_tids(4244);
  pool.set_name("pool");
  pool.set_state("D");
  pool.add_kernel("nfs_wait");
  pool.set_problem("no registers");
  return process;
}

TEST(StackView, NamesTheRankThatDiffersFirst) {
  EXPECT_EQ(format_stack_classes(training(64, 37)),
            "rank 37 on n5, pid 1037\n"
            "    <module> (train.py:230) > main (train.py:212) >\n"
            "      load_batch (train.py:88)  <- here, sleeping in futex_wait_queue\n"
            "ranks 0-36,38-63 on n1-n8: 63 ranks\n"
            "    <module> (train.py:230) > main (train.py:220) >\n"
            "      Model.step (train.py:41)  <- here, sleeping in futex_wait_queue\n");
}

TEST(StackView, IsATreeThatPartsWhereStacksDo) {
  EXPECT_EQ(format_stack_tree(training(64, 37)),
            "ranks 0-63: 64 ranks\n"
            "    <module> (train.py:230)\n"
            "  rank 37: 1 rank\n"
            "      main (train.py:212) > load_batch (train.py:88)  <- here\n"
            "  ranks 0-36,38-63: 63 ranks\n"
            "      main (train.py:220) > Model.step (train.py:41)  <- here\n");
}

TEST(StackView, ShowsNativeFunctionsOfOtherPrograms) {
  EXPECT_EQ(format_stack_classes({native_rank()}),
            "rank 3 on n2, pid 4242\n"
            "    ? > wait_for(int) [libwait.so.1]  <- here, sleeping in futex_wait_queue\n"
            "rank 3 on n2, pid 4242, thread pool, 2 threads\n"
            "    not to be interrupted\n"
            "    kernel: nfs_wait\n"
            "    (no registers)\n");
}

TEST(StackView, PutsEqualThreadsOfAllRanksTogether) {
  std::vector<v1::ProcessStack> processes = training(2, -1);
  for (v1::ProcessStack& process : processes) {
    v1::ThreadStack& pool = *process.add_threads();
    pool.add_tids(process.pid() + 100);
    pool.add_tids(process.pid() + 200);
    pool.set_name("pool");
    pool.set_state(process.rank() == 0 ? "R" : "S");
    *pool.add_python() = process.threads(0).python(0);
    v1::ThreadStack& quiet = *process.add_threads();
    quiet.add_tids(process.pid() + 300);
    quiet.set_state("S");
  }
  const std::string text = format_stack_classes(processes);
  EXPECT_THAT(text, HasSubstr("ranks 0-1 on n1, thread pool: 2 ranks, 4 threads\n"
                              "    Model.step (train.py:41)  <- here, 2 running, 2 sleeping\n"));
  EXPECT_THAT(text, HasSubstr("2 other threads run no Python code; --native shows them\n"));
}

TEST(StackView, NamesProcessesThatARankHasStarted) {
  std::vector<v1::ProcessStack> processes = {native_rank(), python_rank(3, {{"main", 2}})};
  EXPECT_THAT(format_stack_classes(processes), HasSubstr("pid 4242, process train\\x1b[1m\n"));
  EXPECT_THAT(format_stack_classes(processes), Not(HasSubstr("process python3")));
}

TEST(StackView, ShowsWhyPythonFramesAreMissing) {
  v1::ProcessStack process = python_rank(0, {});
  process.mutable_threads(0)->set_python_problem("CPython 3.15.0 is not known: releases of 3.8 to 3.14 are");
  EXPECT_THAT(format_stack_classes({process}), HasSubstr("    (CPython 3.15.0 is not known"));
}

TEST(StackView, TreeMarksInexactStacksAndNamesUnreadOnes) {
  std::vector<v1::ProcessStack> processes = training(4, -1);
  processes[1].mutable_threads(0)->set_python_problem("it ran");
  processes[2].mutable_threads(0)->clear_python();
  processes[2].mutable_threads(0)->set_python_problem("not readable");
  EXPECT_EQ(format_stack_tree(processes),
            "ranks 0-1,3: 3 ranks\n"
            "    <module> (train.py:230) > main (train.py:220) > Model.step (train.py:41)  <- here (inexact: rank 1)\n"
            "(rank 1: it ran)\n"
            "(rank 2: not readable)\n");
}

TEST(StackView, AStackIsReadIfItHasFrames) {
  std::vector<v1::ProcessStack> processes = training(2, -1);
  EXPECT_TRUE(are_stacks_read(processes));
  processes[1].mutable_threads(0)->set_python_problem("it ran");
  EXPECT_TRUE(are_stacks_read(processes));
  processes[1].mutable_threads(0)->clear_python();
  EXPECT_FALSE(are_stacks_read(processes));
  processes[1].mutable_threads(0)->clear_python_problem();
  processes[0].mutable_threads(0)->set_problem("no registers");
  EXPECT_FALSE(are_stacks_read(processes));
}

TEST(StackView, ProblemsComeFirstAndOnlyOnce) {
  v1::ProcessStack silent;
  silent.set_rank(-1);
  silent.set_host("n3");
  silent.set_problem("n3 has not answered within 10 s");
  std::vector<v1::ProcessStack> processes = training(3, -1);
  for (v1::ProcessStack& process : processes) process.set_problem("no user stacks: not permitted");
  processes.insert(processes.begin(), silent);
  EXPECT_TRUE(
      format_stack_classes(processes).starts_with("n3 has not answered within 10 s\n"
                                                  "ranks 0-2, python3: no user stacks: not permitted\n"
                                                  "ranks 0-2 on n1: 3 ranks\n"))
      << format_stack_classes(processes);
}

TEST(StackView, ShowsNativeFunctionsBelowPythonOnes) {
  v1::ProcessStack process = python_rank(0, {{"main", 2}});
  *process.mutable_threads(0)->mutable_user() = native_rank().threads(0).user();
  EXPECT_THAT(format_stack_classes({process}),
              HasSubstr("    main (train.py:2)  <- here, sleeping in futex_wait_queue\n"
                        "    native: ? > wait_for(int) [libwait.so.1]\n"));
}

TEST(StackView, IsShortForThousandsOfRanks) {
  std::vector<v1::ProcessStack> processes = training(2000, 1234);
  processes[77] = python_rank(77, {{"<module>", 230}, {"main", 221}, {"save", 90}});
  const auto start = std::chrono::steady_clock::now();
  const std::string text = format_stack_classes(processes);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_LE(std::ranges::count(text, '\n'), 25);
  EXPECT_TRUE(text.starts_with("rank 77 on n10, pid 1077\n")) << text;
  EXPECT_THAT(text, HasSubstr("\nrank 1234 on n155, pid 2234\n"));
  EXPECT_THAT(text, HasSubstr("\nranks 0-76,78-1233,1235-1999 on n1-n250: 1998 ranks\n"));
}

TEST(StackView, ADeepStackTakesFewLines) {
  std::vector<std::pair<std::string, int>> calls;
  for (int i = 0; i < 60; ++i) calls.emplace_back("Module._call_impl", i);
  const std::string text = format_stack_classes({python_rank(0, calls)});
  for (const std::string_view line : base::split(text, '\n')) EXPECT_LE(line.size(), 120u) << line;
  EXPECT_LE(std::ranges::count(text, '\n'), 25);
}

TEST(StackView, ATreeOfSeveralLooksHasCounts) {
  StackClasses all;
  for (const char* const function : {"step", "step", "step", "load"}) {
    add_look(classify_stacks({python_rank(0, {{"main", 1}, {function, 2}})}), &all);
  }
  EXPECT_EQ(format_stack_tree(all),
            "rank 0: 1 rank, 4 of 4 looks at threads\n"
            "    main (train.py:1)\n"
            "  rank 0: 1 rank, 1 of 4 looks at threads\n"
            "      load (train.py:2)  <- here\n"
            "  rank 0: 1 rank, 3 of 4 looks at threads\n"
            "      step (train.py:2)  <- here\n");
  EXPECT_THAT(format_stack_classes(all), HasSubstr("rank 0 on n1, pid 1000, 3 of 4 looks at threads\n"));
}

TEST(StackView, Json) {
  const std::string line = process_stack_json(python_rank(1, {{"main", 2}}));
  EXPECT_THAT(line, HasSubstr(R"("function":"main","file":"/home/alice/train.py","line":2)"));
  EXPECT_THAT(line, HasSubstr(R"("python":"3.11.2")"));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
}

TEST(StacksManPage, OnlyWhoReadsSettingsHasTheirFiles) {
  EXPECT_EQ(man_page(stacks_doc()).find(".SH FILES"), std::string::npos);
  EXPECT_EQ(man_page(stacks_doc()).find(".SH NOTES"), std::string::npos);
}

}  // namespace
}  // namespace muster::cli::stack_view_test
