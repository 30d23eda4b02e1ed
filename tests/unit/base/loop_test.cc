#include "base/loop.h"

#include <thread>
#include <vector>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/few_descriptors.h"

namespace muster::base::loop_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(Loop, RunsPostedTasksInOrderFromAnyThread) {
  Loop loop;
  std::vector<int> order;
  std::thread other([&] {
    loop.post([&] { order.push_back(1); });
    loop.post([&] { order.push_back(2); });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  other.join();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(Loop, KnowsItsThread) {
  Loop loop;
  EXPECT_TRUE(loop.inside()) << "before run() the owner sets things up";
  bool inside = false;
  loop.post([&] {
    inside = loop.inside();
    loop.stop();
  });
  std::thread runner([&] { loop.run(); });
  runner.join();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(loop.inside());
}

TEST(Loop, TimersFireInOrderOfTime) {
  Loop loop;
  std::vector<int> order;
  const Timer late = loop.after(20ms, [&] {
    order.push_back(2);
    loop.stop();
  });
  const Timer early = loop.after(1ms, [&] { order.push_back(1); });
  loop.run();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(Loop, DroppedTimerDoesNotFire) {
  Loop loop;
  bool fired = false;
  Timer timer = loop.after(1ms, [&] { fired = true; });
  EXPECT_TRUE(timer.armed());
  timer.cancel();
  EXPECT_FALSE(timer.armed());
  Timer replaced = loop.after(1ms, [&] { fired = true; });
  replaced = Timer();
  const Timer end = loop.after(20ms, [&] { loop.stop(); });
  loop.run();
  EXPECT_FALSE(fired);
}

TEST(Loop, RepeatedTimerMayDropItself) {
  Loop loop;
  int ticks = 0;
  Timer timer;
  timer = loop.every(1ms, [&] {
    if (++ticks < 3) return;
    timer.cancel();
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(ticks, 3);
}

TEST(Loop, WatchesADescriptorUntilTheHandleDies) {
  Loop loop;
  FdPair pipe = make_pipe().value();
  std::string got;
  Timer watch;
  watch = loop.on_readable(pipe.first.get(), [&] {
    char c = 0;
    ASSERT_EQ(::read(pipe.first.get(), &c, 1), 1);
    got += c;
    if (got == "abc") {
      watch.cancel();
      loop.post([&] { loop.stop(); });
    }
  });
  ASSERT_TRUE(write_all_blocking(pipe.second.get(), "abcd", 4).ok());
  loop.run();
  EXPECT_EQ(got, "abc") << "nothing after cancel(), though a byte waits";
}

TEST(Loop, TellsThatAPipeTakesMoreAndThatItsReaderIsGone) {
  Loop loop;
  FdPair pipe = make_pipe().value();
  ASSERT_TRUE(set_nonblocking(pipe.second.get(), true).ok());
  const std::string block(65536, 'x');
  while (::write(pipe.second.get(), block.data(), block.size()) > 0) {
  }
  bool is_gone = false;
  const Timer gone = loop.on_readable(pipe.second.get(), [&] {
    is_gone = true;
    loop.stop();
  });
  const Timer room = loop.on_writable(pipe.second.get(), [&] {
    if (!pipe.first.valid()) return;  // called for the reader's end as well
    EXPECT_GT(::write(pipe.second.get(), "y", 1), 0);
    pipe.first.reset();
  });
  std::string drained(block.size(), 0);
  ASSERT_TRUE(read_exactly_blocking(pipe.first.get(), drained.data(), drained.size()).value());
  ::signal(SIGPIPE, SIG_IGN);
  loop.run();
  EXPECT_TRUE(is_gone);
}

TEST(Loop, DestroysPendingTasksWithoutRunningThem) {
  bool ran = false;
  const auto held = std::make_shared<int>(1);
  {
    Loop loop;
    loop.post([&ran, held] { ran = true; });
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(ran);
}

// With no descriptor left a watch polls. It becomes a proper one when there are some again.
TEST(Loop, WatchesWithoutADescriptorToSpare) {
  Loop loop;
  FdPair pipe = make_pipe().value();
  testing_support::FewDescriptors none;
  int reads = 0;
  const Timer watch = loop.on_readable(pipe.first.get(), [&] {
    char c = 0;
    ASSERT_EQ(::read(pipe.first.get(), &c, 1), 1);
    if (++reads == 2) none.give_back();
    if (reads == 4) loop.stop();
    ASSERT_EQ(::write(pipe.second.get(), "x", 1), 1);
  });
  bool is_writable = false;
  const Timer room = loop.on_writable(pipe.second.get(), [&] { is_writable = true; });
  ASSERT_EQ(::write(pipe.second.get(), "x", 1), 1);
  const Timer deadline = loop.after(20s, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(reads, 4);
  EXPECT_TRUE(is_writable);
}

TEST(Loop, AWatchThatPollsMayDropItself) {
  Loop loop;
  FdPair pipe = make_pipe().value();
  const testing_support::FewDescriptors none;
  int calls = 0;
  Timer end;
  Timer watch;
  watch = loop.on_writable(pipe.second.get(), [&] {
    ++calls;
    watch.cancel();
    end = loop.after(100ms, [&] { loop.stop(); });
  });
  const Timer deadline = loop.after(20s, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster::base::loop_test
