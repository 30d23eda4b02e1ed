#include "launcherd/bootstrap/child.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/unit/launcherd/bootstrap/test_sshd.h"

namespace muster::launcherd::child_test {
namespace {

Waiter patience() {
  return {-1, std::chrono::steady_clock::now() + std::chrono::seconds(30)};
}

ProgramResult run_shell(const std::string& script, std::string_view input = {}) {
  Pump pump;
  auto child = spawn_child("/bin/sh", {"/bin/sh", "-c", script}, {"MUSTER_TEST_UNSET"});
  EXPECT_TRUE(child.ok()) << child.status();
  ChildProgram program(*std::move(child), pump, nullptr);
  ProgramResult result;
  const Failure failure = run_to_end(program, input, 1000, patience(), result);
  EXPECT_TRUE(failure.ok());
  return result;
}

TEST(ChildTest, OutputErrorsAndStatus) {
  const ProgramResult result = run_shell("echo out; echo err >&2; exit 5");
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.exit_status, 5);
  EXPECT_EQ(run_shell("kill -9 $$").exit_status, 128 + 9);
}

TEST(ChildTest, InputThenEof) {
  const std::string input(300'000, 'i');
  EXPECT_EQ(run_shell("wc -c", input).output, "300000\n");
  EXPECT_EQ(run_shell("exec 0<&-; echo deaf", input).output, "deaf\n");
}

TEST(ChildTest, OutputBeyondTheLimitIsDropped) {
  EXPECT_EQ(run_shell("head -c 100000 /dev/zero").output.size(), 1000u);
}

TEST(ChildTest, HasItsOwnSessionAndAThinnedEnvironment) {
  ::setenv("MUSTER_TEST_UNSET", "x", 1);
  ::setenv("MUSTER_TEST_KEPT", "kept", 1);
  EXPECT_EQ(run_shell("echo ${MUSTER_TEST_UNSET:-gone} $MUSTER_TEST_KEPT").output, "gone kept\n");
  EXPECT_EQ(run_shell("test `ps -o sid= -p $$` -eq $$ && echo leads").output, "leads\n");
}

TEST(ChildTest, DestructionEndsAndReapsIt) {
  const OwnResources before = own_resources();
  const auto begin = std::chrono::steady_clock::now();
  {
    auto child = spawn_child("/bin/sh", {"/bin/sh", "-c", "trap '' TERM; echo up; read line; sleep 60"}, {});
    ASSERT_TRUE(child.ok());
    EXPECT_EQ(read_up_to(child->stdio.get(), 3), "up\n");
    child->process->terminate();  // ignored
    EXPECT_FALSE(child->process->reap());
  }
  EXPECT_LE(own_resources(), before);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ChildTest, AProgramThatIsNotThere) {
  const auto child = spawn_child("/nowhere/program", {"program"}, {});
  EXPECT_EQ(child.status().code(), base::Code::kNotFound);
}

TEST(LineSplitterTest, CutsLines) {
  std::vector<std::string> lines;
  LineSplitter splitter([&](const std::string& line) { lines.push_back(line); });
  splitter.add("a\nb");
  splitter.add("c\n\n");
  splitter.add(std::string(4096, 'x').append("y"));
  splitter.finish();
  splitter.finish();
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "bc", "", std::string(4096, 'x'), "y"}));
}

}  // namespace
}  // namespace muster::launcherd::child_test
