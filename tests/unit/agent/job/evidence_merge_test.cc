#include "agent/job/evidence_merge.h"

#include <gtest/gtest.h>

namespace muster::agent::evidence_merge_test {
namespace {

using namespace std::chrono_literals;

v1::RankEvidence kernel(const std::string& state, const std::string& channel = {}, const std::string& native = {}) {
  v1::RankEvidence look;
  look.set_rank(3);
  look.set_pid(42);
  look.set_state(state);
  look.set_wait_channel(channel);
  look.set_native(native);
  return look;
}

v1::RankEvidence python(int line, const std::string& state = "S", std::int64_t cpu_ms = 0) {
  v1::RankEvidence look = kernel(state);
  look.set_cpu_ms(cpu_ms);
  v1::PythonFrame& frame = *look.add_python();
  frame.set_function("train");
  frame.set_file("train.py");
  frame.set_line(line);
  return look;
}

TEST(HasMoved, ComparesPythonFramesOnly) {
  EXPECT_FALSE(has_moved(python(7), python(7), 2s));
  EXPECT_TRUE(has_moved(python(7), python(8), 2s));
  EXPECT_FALSE(has_moved(python(7, "R", 0), python(7, "S", 2000), 2s)) << "it loops in one line";
  v1::RankEvidence deeper = python(7);
  *deeper.add_python() = deeper.python(0);
  EXPECT_TRUE(has_moved(python(7), deeper, 2s));
}

TEST(HasMoved, BelievesALookThatSawMotion) {
  v1::RankEvidence ran = python(7, "R");
  ran.set_moving(true);
  EXPECT_TRUE(has_moved(ran, python(7), 2s));
  EXPECT_TRUE(has_moved(python(7), ran, 2s));
}

TEST(HasMoved, ComparesPlacesInTheKernel) {
  EXPECT_FALSE(has_moved(kernel("S", "do_poll", "poll"), kernel("S", "do_poll", "poll"), 2s));
  EXPECT_TRUE(has_moved(kernel("S", "do_poll", "poll"), kernel("S", "futex_wait", "poll"), 2s));
  EXPECT_TRUE(has_moved(kernel("S", "do_poll", "poll"), kernel("S", "do_poll", "ppoll"), 2s));
  EXPECT_TRUE(has_moved(kernel("S", "do_poll"), kernel("D", "nfs_wait"), 2s));
  EXPECT_FALSE(has_moved(kernel("T"), kernel("T"), 2s));
}

TEST(HasMoved, GoesByCpuTimeIfThePlaceIsUnknown) {
  const auto used = [](v1::RankEvidence look, std::int64_t cpu_ms) {
    look.set_cpu_ms(cpu_ms);
    return look;
  };
  EXPECT_TRUE(has_moved(kernel("R"), used(kernel("R"), 1900), 2s));
  EXPECT_FALSE(has_moved(kernel("R"), used(kernel("S", "do_poll"), 90), 2s)) << "it polls";
  EXPECT_TRUE(has_moved(kernel("S", "do_poll"), used(kernel("R"), 110), 2s));
  EXPECT_FALSE(has_moved(kernel("S"), kernel("S"), 2s)) << "the kernel hides where they wait";
  EXPECT_FALSE(has_moved(python(7), kernel("S", "do_poll"), 2s)) << "its frames could not be read";
}

TEST(HasMoved, AnotherProcessIsAnotherPlace) {
  v1::RankEvidence other = python(7);
  other.set_pid(43);
  EXPECT_TRUE(has_moved(python(7), other, 2s));
}

TEST(MergeLooks, HasTheSecondLookAndTheCpuTimeBetween) {
  v1::RankEvidence second = python(7, "R", 1500);
  second.set_fully_stopped(true);
  const v1::RankEvidence first = python(7, "S", 1000);
  const v1::RankEvidence merged = merge_looks(&first, second, 2s);
  EXPECT_EQ(merged.state(), "R");
  EXPECT_EQ(merged.cpu_ms(), 500);
  EXPECT_EQ(merged.looked_ms(), 2000);
  EXPECT_FALSE(merged.moving());
  EXPECT_TRUE(merged.fully_stopped());
  EXPECT_EQ(merged.problem(), "");
  EXPECT_EQ(merge_looks(&second, first, 2s).cpu_ms(), 0) << "a child has left with its time";
}

TEST(MergeLooks, SaysThatThereWasOnlyOneLook) {
  v1::RankEvidence only = python(7, "S", 1000);
  EXPECT_EQ(merge_looks(nullptr, only, 0s).problem(), "there was only one look at it");
  EXPECT_EQ(merge_looks(nullptr, only, 0s).cpu_ms(), 0);
  EXPECT_EQ(merge_looks(nullptr, only, 0s).looked_ms(), 0);
  only.set_problem("no memory");
  EXPECT_EQ(merge_looks(nullptr, only, 0s).problem(), "no memory; there was only one look at it");
}

}  // namespace
}  // namespace muster::agent::evidence_merge_test
