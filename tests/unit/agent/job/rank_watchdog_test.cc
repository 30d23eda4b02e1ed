#include "agent/job/rank_watchdog.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/rank_env.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_watchdog_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

double now_seconds() {
  return std::chrono::duration<double>(base::SystemClock().wall().time_since_epoch()).count();
}

std::string request(int pid, const std::string& scope, double expires, int signo) {
  return fmt::format(R"({{"version": 1, "pid": {}, "scope_id": "{}", "expiration_time": {:.6f}, "signal": {}}})", pid,
                     scope, expires, signo) +
         "\n";
}

class RankWatchdogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const base::Status opened = watchdog_.open(directory_.path());
    ASSERT_TRUE(opened.ok()) << opened;
    watchdog_.started(3, 77);
    watchdog_.started(4, 78);
  }
  // Writes as a rank does.
  void write(const std::string& bytes) {
    const base::UniqueFd fifo(::open(model::torch_timer_file(directory_.path()).c_str(), O_WRONLY | O_NONBLOCK));
    ASSERT_TRUE(fifo.valid());
    ASSERT_EQ(::write(fifo.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  bool run_until(const std::function<bool()>& is_done, std::chrono::milliseconds limit = 20s) {
    bool is_in_time = true;
    const base::Timer end = loop_.after(limit, [&] {
      is_in_time = false;
      loop_.stop();
    });
    const base::Timer check = loop_.every(1ms, [&] {
      if (is_done()) loop_.stop();
    });
    loop_.run();
    return is_in_time;
  }
  void answer(std::uint64_t id, int rank, const std::string& function, bool is_done) {
    v1::StackAnswer answer;
    answer.set_id(id);
    answer.set_done(is_done);
    if (!function.empty()) {
      answer.mutable_process()->set_rank(rank);
      answer.mutable_process()->set_pid(1234);
      answer.mutable_process()->set_command("python3");
      v1::ThreadStack& thread = *answer.mutable_process()->add_threads();
      thread.add_tids(1234);
      thread.add_user()->set_function(function);
      thread.add_user()->set_address(0x10);
    }
    watchdog_.stack_arrived(answer);
  }
  static v1::RankExited exited(int rank, int wait_status) {
    v1::RankExited message;
    message.set_rank(rank);
    message.set_wait_status(wait_status);
    message.set_stopped_by_us(true);
    return message;
  }

  base::Loop loop_;
  const base::SystemClock clock_{};
  testing_support::TempDir directory_;
  std::vector<std::string> notices_;
  std::vector<std::pair<std::uint64_t, std::set<int>>> readings_;
  std::vector<std::pair<int, int>> signals_;
  RankWatchdog watchdog_{
      loop_,
      clock_,
      {.on_notice = [this](const std::string& text) { notices_.push_back(text); },
       .read_stacks = [this](std::uint64_t id, const std::set<int>& ranks) { readings_.emplace_back(id, ranks); },
       .signal = [this](int rank, int signo) { signals_.emplace_back(rank, signo); }}};
};

TEST_F(RankWatchdogTest, ReadsTheStackOfARankThatHangsAndSignalsIt) {
  write(request(77, "train.py#12", now_seconds() - 1, SIGKILL));
  ASSERT_TRUE(run_until([&] { return !readings_.empty(); }));
  EXPECT_THAT(notices_,
              ElementsAre("rank 3 hangs: its watchdog timer of scope 'train.py#12' has expired; it gets SIGKILL"));
  EXPECT_EQ(readings_[0].second, std::set<int>{3});
  EXPECT_NE(readings_[0].first & RankWatchdog::kStackBit, 0u);
  EXPECT_THAT(signals_, IsEmpty()) << "before its stack is known";
  answer(readings_[0].first, 3, "allreduce", false);
  EXPECT_THAT(notices_.back(), HasSubstr("rank 3, pid 1234 (python3), one thread: allreduce < 0x10"));
  answer(readings_[0].first, 3, "", true);
  EXPECT_THAT(signals_, ElementsAre(std::make_pair(3, SIGKILL)));
}

TEST_F(RankWatchdogTest, SignalsARankAgainThatHasSurvived) {
  for (const std::size_t times : {1u, 2u}) {
    write(request(77, "s", 1, SIGUSR1));
    ASSERT_TRUE(run_until([&] { return readings_.size() == times; }));
    answer(readings_.back().first, 3, "", true);
    EXPECT_EQ(signals_.size(), times);
  }
}

TEST_F(RankWatchdogTest, WaitsForTheTime) {
  const double expires = now_seconds() + 0.3;
  write(request(77, "s", expires, SIGTERM));
  ASSERT_TRUE(run_until([&] { return !readings_.empty(); }));
  EXPECT_GE(now_seconds(), expires);
}

TEST_F(RankWatchdogTest, ReplacesTheFifoOfAnEarlierStart) {
  RankWatchdog later(
      loop_, clock_,
      {.on_notice = [this](const std::string& text) { notices_.push_back(text); }, .read_stacks = {}, .signal = {}});
  EXPECT_TRUE(later.open(directory_.path()).ok());
  write("no JSON\n");
  ASSERT_TRUE(run_until([&] { return !notices_.empty(); }));
}

TEST_F(RankWatchdogTest, DoesNothingForTimersThatAreReleased) {
  write(request(77, "s", now_seconds() + 0.2, SIGKILL) + request(78, "s", now_seconds() + 0.2, SIGKILL));
  write(request(77, "s", -1, 0));
  ASSERT_TRUE(run_until([&] { return !readings_.empty(); }));
  EXPECT_EQ(readings_[0].second, std::set<int>{4});
}

TEST_F(RankWatchdogTest, SignalsNoProcessButRanks) {
  write(request(::getpid(), "mine", 1, SIGKILL) + request(1, "init", 1, SIGKILL));
  ASSERT_TRUE(run_until([&] { return !notices_.empty(); }));
  EXPECT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("no rank here has this pid, so nothing is ended"));
  EXPECT_THAT(readings_, IsEmpty());
}

TEST_F(RankWatchdogTest, ForgetsTheTimersOfRanksThatHaveEnded) {
  write(request(77, "s", now_seconds() + 0.2, SIGKILL));
  write(request(78, "s", now_seconds() + 0.3, SIGKILL));
  ASSERT_TRUE(run_until([&] {
    watchdog_.ended(3);
    return !readings_.empty();
  }));
  EXPECT_EQ(readings_[0].second, std::set<int>{4});
  watchdog_.ended(4);
  answer(readings_[0].first, 4, "", true);
  EXPECT_THAT(signals_, IsEmpty());
}

TEST_F(RankWatchdogTest, ReportsBadLinesOnceAndGoesOn) {
  write("no JSON\n" + std::string(5000, 'x') + "\n{\"pid\": 77}\n");
  write(request(77, "s", 1, SIGKILL));
  ASSERT_TRUE(run_until([&] { return !readings_.empty(); }));
  ASSERT_EQ(notices_.size(), 2u);
  EXPECT_THAT(notices_[0], HasSubstr("no request of torch's FileTimerClient"));
}

TEST_F(RankWatchdogTest, ReportsOnceThatThereIsNoRoomForTimers) {
  std::string lines;
  for (std::size_t i = 0; i < WatchdogTimers::kMaxTimers + 5; ++i) {
    lines += request(77, std::to_string(i), now_seconds() + 1000, SIGKILL);
    if (lines.size() < (16u << 10)) continue;
    write(lines);
    lines.clear();
    ASSERT_TRUE(run_until([ticks = 0]() mutable { return ++ticks > 3; }));
  }
  write(lines);
  ASSERT_TRUE(run_until([&] { return !notices_.empty(); }));
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("4096 watchdog timers"));
}

TEST_F(RankWatchdogTest, MakesTheEndOfAHungRankItsOwnFailure) {
  v1::RankExited other = exited(3, SIGKILL);
  watchdog_.judge(other);
  EXPECT_TRUE(other.stopped_by_us());  // it has not hung
  write(request(77, "s", 1, SIGKILL));
  ASSERT_TRUE(run_until([&] { return !readings_.empty(); }));
  answer(readings_[0].first, 3, "", true);
  v1::RankExited hung = exited(3, SIGKILL);
  watchdog_.judge(hung);
  EXPECT_FALSE(hung.stopped_by_us());
  v1::RankExited stopped = exited(3, SIGTERM);
  watchdog_.judge(stopped);
  EXPECT_TRUE(stopped.stopped_by_us());  // by another signal
}

TEST(RankWatchdogFifo, CannotBeMadeInAMissingFolder) {
  base::Loop loop;
  const base::SystemClock clock;
  RankWatchdog watchdog(loop, clock, {});
  EXPECT_THAT(watchdog.open("/nowhere").message(), HasSubstr("make the FIFO /nowhere/torch-timers"));
}

}  // namespace
}  // namespace muster::agent::rank_watchdog_test
