#include "agent/job/session_warden.h"

#include <sys/wait.h>

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::session_warden_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeWarden;
using testing::run_until;
using testing::started;

class SessionWardenTest : public ::testing::Test {
 protected:
  ~SessionWardenTest() override { fake_.end(); }  // the handle's destructor waits for its end

  base::Loop loop_;
  FakeWarden fake_{loop_};
  std::vector<int> started_;
  int ends_ = 0;
  int dues_ = 0;
  SessionWarden warden_{
      loop_,
      fake_.take(),
      {.on_event = [this](WardenEvent& event) { started_.push_back(std::get<RankStarted>(event).rank); },
       .on_end = [this] { ++ends_; },
       .on_close_due = [this] { ++dues_; }}};
};

TEST_F(SessionWardenTest, PassesOnEventsAndTheEndOnce) {
  fake_.send(started(3, 10));
  fake_.send(started(4, 11));
  EXPECT_TRUE(run_until(loop_, [this] { return started_.size() == 2; }));
  EXPECT_EQ(started_, (std::vector<int>{3, 4}));
  EXPECT_EQ(ends_, 0);
  fake_.end();
  EXPECT_TRUE(run_until(loop_, [this] { return ends_ > 0; }));
  run_until(loop_, [n = 0]() mutable { return ++n > 5; });
  EXPECT_EQ(ends_, 1);
}

TEST_F(SessionWardenTest, DismissedWardenLeaves) {
  const std::string directory = warden_->session_dir();
  warden_.dismiss();
  EXPECT_TRUE(run_until(loop_, [this] { return ends_ > 0; }));
  EXPECT_EQ(fake_.count<LeaveCommand>(), 1U);
  EXPECT_TRUE(warden_.close().ok());
  EXPECT_NE(::access(directory.c_str(), F_OK), 0);
  EXPECT_EQ(dues_, 0);
}

TEST_F(SessionWardenTest, ReportsTheEndAgainWhenDismissedLate) {
  fake_.end();
  EXPECT_TRUE(run_until(loop_, [this] { return ends_ == 1; }));
  warden_.dismiss();
  EXPECT_TRUE(run_until(loop_, [this] { return ends_ == 2; }));
}

TEST_F(SessionWardenTest, ContinuesAStoppedWarden) {
  const pid_t pid = warden_->pid();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
  const base::MonotonicTime now = base::monotonic_now();
  EXPECT_FALSE(warden_.check(now, true)) << "it had no time to run yet";
  ASSERT_EQ(::waitpid(pid, nullptr, WCONTINUED), pid);
  EXPECT_FALSE(warden_.check(now + 2s, true));
}

TEST_F(SessionWardenTest, KillsAWardenThatHangsWhileRanksMustEnd) {
  const pid_t pid = warden_->pid();
  const base::MonotonicTime now = base::monotonic_now();
  const auto check = [&](base::MonotonicTime when, bool must_end_ranks) {
    EXPECT_EQ(::kill(pid, SIGSTOP), 0);  // again, because each check continues it
    EXPECT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
    return warden_.check(when, must_end_ranks);
  };
  EXPECT_FALSE(check(now, false));
  EXPECT_FALSE(check(now + 1h, true)) << "it hangs since now";
  EXPECT_FALSE(check(now + 1h + 999ms, true));
  EXPECT_FALSE(check(now + 1h + 999ms, false)) << "then it counts anew";
  EXPECT_FALSE(check(now + 1h + 1s, true));
  EXPECT_TRUE(check(now + 1h + 2s, true));
}

}  // namespace
}  // namespace muster::agent::session_warden_test
