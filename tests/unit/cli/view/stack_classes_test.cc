#include "cli/view/stack_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/view/python_ranks.h"

namespace muster::cli::stack_classes_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::ProcessStack process_of(int rank, const std::string& file) {
  return testing_support::python_rank(rank, {{"step", 0}}, file);
}

TEST(StackClasses, AreOrderedByTheNumberOfRanks) {
  const auto all = classify_stacks({process_of(0, "a.py"), process_of(1, "a.py"), process_of(2, "b.py")});
  ASSERT_EQ(all.classes.size(), 2u);
  EXPECT_THAT(all.classes[0].ranks, ElementsAre(2));
  EXPECT_THAT(all.classes[1].ranks, ElementsAre(0, 1));
  EXPECT_EQ(all.classes[1].threads, 2);
  EXPECT_THAT(all.problems, IsEmpty());
}

TEST(StackClasses, NameFilesByTheirLastPart) {
  const auto name = [](const std::string& file) {
    return classify_stacks({process_of(0, file)}).classes.at(0).python.at(0);
  };
  EXPECT_EQ(name("/opt/lib/train.py"), "step (train.py)");
  EXPECT_EQ(name("/opt/lib/torch/__init__.py"), "step (torch/__init__.py)");
  EXPECT_EQ(name("__init__.py"), "step (__init__.py)");
  EXPECT_EQ(name("/__init__.py"), "step (__init__.py)");
  EXPECT_EQ(name(""), "step ()");
}

TEST(StackClasses, KeepOtherProcessesApart) {
  v1::ProcessStack shell;
  shell.set_rank(0);
  shell.set_pid(99);
  shell.set_command("sh");
  shell.add_threads()->add_tids(99);
  const auto all = classify_stacks({shell, process_of(0, "a.py")});
  ASSERT_EQ(all.classes.size(), 2u);
  EXPECT_EQ(all.classes[0].command, "");  // the shell only waits for the program proper
  EXPECT_EQ(all.classes[1].command, "sh");
}

TEST(StackClasses, CountThreadsWithoutPythonFrames) {
  v1::ProcessStack process = process_of(0, "a.py");
  v1::ThreadStack& pool = *process.add_threads();
  pool.add_tids(7);
  pool.add_tids(8);
  EXPECT_EQ(classify_stacks({process}).hidden_threads, 2);
  pool.set_problem("no registers");
  EXPECT_EQ(classify_stacks({process}).hidden_threads, 0);
}

// Any of the other threads may be the one that runs this Python stack.
TEST(StackClasses, DoNotCountThreadsThatMayRunPython) {
  v1::ProcessStack process = process_of(0, "a.py");
  process.mutable_threads(0)->clear_tids();
  process.mutable_threads(0)->clear_state();
  process.mutable_threads(0)->clear_wait_channel();
  process.add_threads()->add_tids(7);
  const auto all = classify_stacks({process});
  EXPECT_EQ(all.hidden_threads, 0);
  ASSERT_EQ(all.classes.size(), 1u);
  EXPECT_EQ(all.classes[0].states.begin()->first, "in a state that is not known");
}

TEST(StackClasses, IgnoreThreadsOfNoProcess) {
  v1::ProcessStack process = process_of(0, "a.py");
  process.set_pid(0);
  EXPECT_THAT(classify_stacks({process}).classes, IsEmpty());
}

TEST(StackClasses, AddUpOverLooks) {
  StackClasses all;
  add_look(classify_stacks({process_of(0, "a.py"), process_of(1, "a.py")}), &all);
  add_look(classify_stacks({process_of(0, "a.py"), process_of(1, "b.py")}), &all);
  v1::ProcessStack silent;
  silent.set_problem("n3: does not answer");
  for (int i = 0; i < 2; ++i) add_look(classify_stacks({silent, process_of(0, "b.py")}), &all);
  EXPECT_EQ(all.looks, 4);
  ASSERT_EQ(all.classes.size(), 2u);
  EXPECT_EQ(all.classes[0].threads, 3);  // a.py
  EXPECT_EQ(all.classes[0].ranks, (std::set<int>{0, 1}));
  EXPECT_EQ(all.classes[1].threads, 3);  // b.py
  EXPECT_EQ(all.problems, (std::vector<std::string>{"n3: does not answer"}));
  EXPECT_EQ(call_tree(all.classes).threads, 6);
}

TEST(StackClasses, NameLooksOnlyIfThereAreSeveral) {
  EXPECT_EQ(format_threads(1, 4, 1), "1 thread");
  EXPECT_EQ(format_threads(3, 4, 1), "3 threads");
  EXPECT_EQ(format_threads(3, 40, 10), "3 of 40 looks at threads");
}

TEST(StackClasses, SayWhoHasReadTheStacks) {
  v1::ProcessStack process = process_of(3, "a.py");
  process.clear_python();
  process.set_command("python3");
  process.set_python_source("py-spy");
  v1::ProcessStack shell;
  shell.set_rank(3);
  shell.set_pid(99);
  shell.set_command("sh");
  shell.add_threads()->add_tids(99);
  const auto all = classify_stacks({shell, process});
  EXPECT_THAT(all.problems, ElementsAre("rank 3, python3: Python code of the main thread, read by py-spy"));
  EXPECT_EQ(all.classes[0].command, "") << "it runs Python, so it is the rank's own process";
}

}  // namespace
}  // namespace muster::cli::stack_classes_test
