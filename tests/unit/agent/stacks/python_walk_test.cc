#include "agent/stacks/python_walk.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/stacks/fake_python.h"

namespace muster::agent::python_walk_test {
namespace {

using testing_support::FakePython;

constexpr std::uint32_t k3_14 = 0x030e02f0;

// A process with one thread.
class PythonWalk : public ::testing::Test {
 protected:
  std::optional<std::vector<PythonThreadState>> threads(const std::map<pid_t, pid_t>& tids = {}) {
    PageCache pages(fake_);
    auto list = read_python_threads(pages, fake_.python(), tids);
    if (!list) return std::nullopt;
    is_cut_ = list->is_cut;
    return std::move(list->threads);
  }

  bool is_cut_ = false;
  FakePython fake_{k3_14};
  const std::uint64_t frame_ = fake_.add_frame(fake_.add_code("main", 10), 0, 0);
  const std::uint64_t thread_ = fake_.add_thread(frame_);
};

TEST_F(PythonWalk, FindsThreadsAndFrames) {
  fake_.add_thread(0, 77);
  const auto found = threads({{77, 7}});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ(found->at(0).tid, 7);
  EXPECT_EQ(found->at(1).tid, 0);  // not among the threads of the process
  PageCache pages(fake_);
  EXPECT_TRUE(read_python_frames(pages, fake_.python(), found->at(0))->frames.empty());
  const auto chain = read_python_frames(pages, fake_.python(), found->at(1));
  ASSERT_EQ(chain->frames.size(), 1u);
  EXPECT_EQ(chain->frames[0].address, frame_);
}

TEST_F(PythonWalk, IgnoresTheLowBitsOfACode) {
  const std::uint64_t at = frame_ + fake_.layout().frame.code;
  PageCache before(fake_);
  const std::uint64_t code = *before.pointer(at);
  fake_.store(at, code | 1);
  PageCache pages(fake_);
  EXPECT_EQ(read_python_frames(pages, fake_.python(), threads()->at(0))->frames.at(0).code, code);
}

TEST_F(PythonWalk, EndsIfThreadsAreALoop) {
  fake_.store(thread_ + fake_.layout().thread.next, thread_);
  EXPECT_EQ(threads()->size(), kMaxPythonThreads);
  EXPECT_TRUE(is_cut_);
}

TEST_F(PythonWalk, MarksThatInterpretersAreLeftOut) {
  for (std::size_t i = 1; i < kMaxPythonInterpreters; ++i) fake_.add_interpreter();
  EXPECT_EQ(threads()->size(), 1u);
  EXPECT_FALSE(is_cut_);
  fake_.add_interpreter();
  EXPECT_EQ(threads()->size(), 0u);
  EXPECT_TRUE(is_cut_);
}

TEST_F(PythonWalk, IsRefusedIfAThreadStateIsGone) {
  const auto before = threads();
  fake_.store(thread_ + fake_.layout().thread.interpreter, std::uint64_t{8});
  EXPECT_FALSE(threads());
  PageCache pages(fake_);
  EXPECT_FALSE(read_python_frames(pages, fake_.python(), before->at(0)));
}

TEST_F(PythonWalk, IsRefusedIfAPointerLeadsNowhere) {
  fake_.store(frame_ + fake_.layout().frame.previous, std::uint64_t{8});
  PageCache pages(fake_);
  EXPECT_FALSE(read_python_frames(pages, fake_.python(), threads()->at(0)));
  fake_.store(thread_ + fake_.layout().thread.next, std::uint64_t{8});
  EXPECT_FALSE(threads());
}

}  // namespace
}  // namespace muster::agent::python_walk_test
