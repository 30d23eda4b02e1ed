// Stacks of made-up interpreters: versions that are not at hand, and memory that no interpreter would have.
#include "agent/stacks/python_stack.h"

#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/stacks/python_code.h"
#include "tests/unit/agent/stacks/fake_python.h"

namespace muster::agent::python_stack_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using testing_support::FakePython;

constexpr std::uint32_t k3_13 = 0x030d00f0;
constexpr std::uint32_t k3_14 = 0x030e02f0;

const std::map<pid_t, pid_t> kTids = {{FakePython::kTid, FakePython::kTid}};

// A process whose only thread is in step(), which main() has called.
struct Training {
  explicit Training(std::uint32_t version = k3_14) : fake(version) {
    main = fake.add_frame(fake.add_code("main", 200), 4, 0);
    step = fake.add_frame(fake.add_code("Model.step", 10), 6, main);
    thread = fake.add_thread(step);
  }
  PythonStacks read() { return read_python_stacks(fake, fake.python(), kTids); }

  FakePython fake;
  std::uint64_t main = 0, step = 0, thread = 0;
};

TEST(PythonStack, IsReadFromVersionsThatDescribeThemselves) {
  for (const std::uint32_t version : {k3_13, k3_14}) {
    Training training(version);
    const PythonStacks stacks = training.read();
    EXPECT_EQ(stacks.version, version == k3_13 ? "3.13.0" : "3.14.2");
    EXPECT_EQ(stacks.problem, "");
    ASSERT_EQ(stacks.threads.size(), 1u);
    EXPECT_EQ(stacks.threads[0].tid, FakePython::kTid);
    EXPECT_EQ(stacks.threads[0].problem, "");
    EXPECT_THAT(stacks.threads[0].frames,
                ElementsAre(PythonFrame{"Model.step", "train.py", 11}, PythonFrame{"main", "train.py", 201}));
  }
}

TEST(PythonStack, FollowsCopiesOfTheCodeInFreeThreadedBuilds) {
  FakePython fake(k3_14, true);
  const std::uint64_t code = fake.add_code("main", 200);
  const std::uint64_t frame = fake.add_frame(code, 0, 0);
  const std::uint64_t copies = fake.allocate(64);
  const std::uint64_t copy = fake.allocate(64);
  fake.store(code + fake.layout().code.bytecode_copies, copies);
  fake.store(copies, std::uint64_t{2});
  fake.store(copies + 16, copy);
  fake.store(frame + fake.layout().frame.bytecode_index, std::int32_t{1});
  fake.store(frame + fake.layout().frame.instruction, copy + 4);
  fake.add_thread(frame);
  EXPECT_EQ(read_python_stacks(fake, fake.python(), kTids).threads.at(0).frames.at(0).line, 201);
  fake.store(frame + fake.layout().frame.bytecode_index, std::int32_t{2});
  EXPECT_THAT(read_python_stacks(fake, fake.python(), kTids).threads.at(0).problem, HasSubstr("cannot be read"));
}

TEST(PythonStack, LeavesOutFramesOfTheInterpreterItself) {
  Training training;
  training.fake.store(training.main + training.fake.layout().frame.owner, std::uint8_t{3});
  EXPECT_THAT(training.read().threads.at(0).frames, ElementsAre(PythonFrame{"Model.step", "train.py", 11}));
}

TEST(PythonStack, OfARunningThreadIsExactIfItDoesNotChange) {
  Training training;
  training.fake.mark = std::nullopt;
  EXPECT_EQ(training.read().threads.at(0).problem, "");
  EXPECT_EQ(training.read().threads.at(0).frames.size(), 2u);
}

TEST(PythonStack, KeepsOnlyOuterFramesIfInnerOnesChange) {
  Training training;
  training.fake.mark = std::nullopt;
  const std::uint64_t other = training.fake.add_frame(training.fake.add_code("log", 30), 0, training.main);
  std::minstd_rand random(1);
  training.fake.on_read = [&] {
    training.fake.store(training.thread + training.fake.layout().thread.frame,
                        random() % 2 == 0 ? training.step : other);
  };
  const PythonStack stack = training.read().threads.at(0);
  EXPECT_THAT(stack.problem, HasSubstr("it ran while it was read"));
  EXPECT_TRUE(stack.has_moved);
  EXPECT_THAT(stack.frames, SizeIs(Le(1)));
  for (const PythonFrame& frame : stack.frames) EXPECT_EQ(frame.function, "main");
}

TEST(PythonStack, MarksALineThatChanges) {
  Training training;
  training.fake.mark = std::nullopt;
  const std::uint64_t instruction = training.step + training.fake.layout().frame.instruction;
  agent::PageCache pages(training.fake);
  const std::uint64_t begin = *pages.pointer(instruction);
  std::uint64_t reads = 0;
  training.fake.on_read = [&] { training.fake.store(instruction, begin - ++reads % 3 * 2); };
  const PythonStack stack = training.read().threads.at(0);
  EXPECT_THAT(stack.problem, HasSubstr("it ran while it was read"));
  EXPECT_FALSE(stack.has_moved) << "it stayed within its calls";
  EXPECT_EQ(stack.frames.size(), 2u);
}

TEST(PythonStack, IsCutIfItIsDeep) {
  FakePython fake(k3_14);
  const std::uint64_t code = fake.add_code("recurse", 10);
  std::uint64_t frame = 0;
  for (int i = 0; i < 300; ++i) frame = fake.add_frame(code, 0, frame);
  fake.add_thread(frame);
  const PythonStack stack = read_python_stacks(fake, fake.python(), kTids).threads.at(0);
  EXPECT_EQ(stack.frames.size(), kMaxPythonFrames);
  EXPECT_EQ(stack.problem, "44 outer frames are left out");
}

// The innermost frame goes on within its call, so all frames stay.
TEST(PythonStack, SaysThatOuterFramesAreMissingIfItAlsoRan) {
  FakePython fake(k3_14);
  fake.mark = std::nullopt;
  const std::uint64_t code = fake.add_code("recurse", 10);
  std::uint64_t frame = 0;
  for (int i = 0; i < 300; ++i) frame = fake.add_frame(code, 0, frame);
  fake.add_thread(frame);
  const std::uint64_t instruction = frame + fake.layout().frame.instruction;
  agent::PageCache pages(fake);
  const std::uint64_t begin = *pages.pointer(instruction);
  std::uint64_t reads = 0;
  fake.on_read = [&] { fake.store(instruction, begin - ++reads % 3 * 2); };
  const PythonStack stack = read_python_stacks(fake, fake.python(), kTids).threads.at(0);
  EXPECT_EQ(stack.frames.size(), kMaxPythonFrames);
  EXPECT_THAT(stack.problem, HasSubstr("it ran while it was read"));
  EXPECT_THAT(stack.problem, HasSubstr("; 44 outer frames are left out"));
}

TEST(PythonStack, SaysThatFramesStayedWhichAreTooFarOut) {
  FakePython fake(k3_14);
  fake.mark = std::nullopt;
  const std::uint64_t code = fake.add_code("recurse", 10);
  std::uint64_t outer = 0;
  for (int i = 0; i < 100; ++i) outer = fake.add_frame(code, 0, outer);
  const auto deep = [&] {
    std::uint64_t frame = outer;
    for (int i = 0; i < 300; ++i) frame = fake.add_frame(code, 0, frame);
    return frame;
  };
  const std::array<std::uint64_t, 2> inner = {deep(), deep()};
  const std::uint64_t thread = fake.add_thread(inner[0]);
  std::minstd_rand random(1);
  fake.on_read = [&] { fake.store(thread + fake.layout().thread.frame, inner[random() % 2]); };
  const PythonStack stack = read_python_stacks(fake, fake.python(), kTids).threads.at(0);
  EXPECT_THAT(stack.frames, IsEmpty());
  EXPECT_THAT(stack.problem, HasSubstr("too far out; 144 outer frames are left out"));
}

TEST(PythonStack, HasLimitedTextInAllThreads) {
  FakePython fake(k3_14);
  const std::uint64_t code = fake.add_code(std::string(kMaxPythonName, 'f'), 10);
  std::uint64_t frame = 0;
  for (std::size_t i = 0; i < kMaxPythonFrames; ++i) frame = fake.add_frame(code, 0, frame);
  for (int i = 0; i < 100; ++i) fake.add_thread(frame);
  const PythonStacks stacks = read_python_stacks(fake, fake.python(), kTids);
  EXPECT_EQ(stacks.threads.size(), kMaxPythonText / (kMaxPythonFrames * (kMaxPythonName + 8)) + 1);
  EXPECT_THAT(stacks.problem, HasSubstr("of 100 Python threads are shown"));
}

TEST(PythonStack, EndsIfFramesAreALoop) {
  Training training;
  training.fake.store(training.main + training.fake.layout().frame.previous, training.step);
  const PythonStack stack = training.read().threads.at(0);
  EXPECT_EQ(stack.frames.size(), kMaxPythonFrames);
  EXPECT_THAT(stack.problem, HasSubstr("inner frames are shown"));
}

TEST(PythonStack, HasAProblemIfAnObjectIsNoCode) {
  Training training;
  training.fake.store(training.step + training.fake.layout().frame.code, training.main);
  const PythonStack stack = training.read().threads.at(0);
  EXPECT_THAT(stack.frames, IsEmpty());
  EXPECT_THAT(stack.problem, HasSubstr("cannot be read"));
}

TEST(PythonStack, HasNoTidIfTheIdIsNotAThreadOfTheProcess) {
  Training training;
  EXPECT_EQ(read_python_stacks(training.fake, training.fake.python(), {}).threads.at(0).tid, 0);
  EXPECT_EQ(read_python_stacks(training.fake, training.fake.python(), {{FakePython::kTid, 7}}).threads.at(0).tid, 7);
}

TEST(PythonStack, IsEmptyWhilePythonStarts) {
  FakePython fake(k3_14);
  EXPECT_EQ(read_python_stacks(fake, fake.python(), kTids).problem, "its Python is starting or ending");
}

}  // namespace
}  // namespace muster::agent::python_stack_test
