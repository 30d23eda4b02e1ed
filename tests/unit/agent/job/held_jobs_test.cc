// A warm agent, as a process, whose launcher ends and starts again: which jobs are held, what the next launcher
// receives, and that no line of output is lost.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/agent/job/warm_harness.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::held_jobs_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using testing::launch;
using Body = v1::AgentMessage;

class HeldJobsTest : public testing::WarmAgentFixture {
 protected:
  HeldJobsTest() { EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0); }

  void start(std::vector<std::string> environment = {}, const std::function<void(v1::AgentJoin&)>& adjust = {}) {
    agent_ = std::make_unique<WarmAgent>(state_, ground_.session_root(), adjust, std::move(environment));
    ASSERT_EQ(agent_->link_line(), "MUSTER-LINK dial");
    EXPECT_EQ(launcher_->next_hello().launcher_instance(), "");
  }

  void start_job(const std::vector<std::vector<std::string>>& commands, bool hold,
                 std::chrono::milliseconds lease = 1min) {
    launcher_->send(open_job(job_, state_, hold, lease));
    launcher_->send(launch(job_, commands));
    EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  }

  std::vector<std::string> sleeper() const { return {ground_.victim("sleeper"), job_}; }
  // A command that ends with `code` when the test writes into the pipe.
  std::vector<std::string> waiter(int code) const {
    return {"sh", "-c", "read x < " + fifo_ + "; exit " + std::to_string(code)};
  }
  void let_go() const {
    const int fd = ::open(fifo_.c_str(), O_WRONLY);
    EXPECT_EQ(::write(fd, "\n", 1), 1);
    ::close(fd);
  }

  void next_launcher(const std::string& instance) {
    launcher_.reset();
    launcher_ = std::make_unique<FakeLauncher>(state_, instance);
  }

  const std::string fifo_ = ground_.path() + "/go";
};

// The bodies of a job's messages, to compare those of the first launcher with those that the next one receives.
std::vector<std::string> bodies(const std::vector<v1::AgentMessage>& messages) {
  std::vector<std::string> texts;
  for (v1::AgentMessage message : messages) {
    message.clear_sequence();
    message.clear_ack();
    texts.push_back(message.ShortDebugString());
  }
  return texts;
}

TEST_F(HeldJobsTest, TheNextLauncherIsToldTheWholePast) {
  start();
  launcher_->send(open_job(job_, state_, true));
  launcher_->send(prepare(job_));
  launcher_->send(launch(job_, {{"true"}, waiter(9), sleeper()}));
  auto first = bodies(launcher_->all_up_to(job_, Body::kRankExited));  // up to the exit of the first rank
  if (first.empty()) FAIL() << "no rank has ended";

  launcher_.reset();
  let_go();  // a rank ends while no launcher listens
  launcher_ = std::make_unique<FakeLauncher>(state_, "two");
  const v1::Hello hello = launcher_->next_hello();
  EXPECT_EQ(hello.launcher_instance(), "one");
  ASSERT_EQ(hello.held_jobs_size(), 1);
  EXPECT_EQ(hello.held_jobs(0).job_id(), job_);
  EXPECT_TRUE(hello.held_jobs(0).launched());
  auto history = launcher_->all_up_to(job_, Body::kHistoryEnd);
  ASSERT_GT(history.size(), first.size());
  EXPECT_EQ(history[0].sequence(), 1U);
  const auto all = bodies(history);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));

  // The exit of the second rank arrives exactly once, in the history or after it. The third rank still runs.
  int exits = 0;
  const auto count = [&exits](const v1::AgentMessage& message) {
    if (!message.has_rank_exited() || message.rank_exited().rank() != 1) return;
    EXPECT_EQ(message.rank_exited().wait_status(), 9 << 8);
    ++exits;
  };
  for (const v1::AgentMessage& message : history) count(message);
  EXPECT_EQ(processes_with(job_).size(), 1U);
  launcher_->send(stop(job_));
  for (const v1::AgentMessage& message : launcher_->all_up_to(job_, Body::kHostEmpty)) count(message);
  EXPECT_EQ(exits, 1);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, AJobThatEndedMeanwhileIsThereWithItsExit) {
  start();
  start_job({waiter(5)}, true);
  launcher_.reset();
  let_go();
  EXPECT_TRUE(eventually(10s, [this] { return testing::processes_with(fifo_).empty(); }));
  launcher_ = std::make_unique<FakeLauncher>(state_, "two");
  EXPECT_EQ(launcher_->next_hello().held_jobs_size(), 1);
  int status = -1;
  bool is_over = false;
  const auto inspect = [&](const v1::AgentMessage& message) {
    if (message.has_rank_exited()) status = message.rank_exited().wait_status();
    is_over = is_over || message.has_host_empty();
  };
  for (const v1::AgentMessage& message : launcher_->all_up_to(job_, Body::kHistoryEnd)) inspect(message);
  if (!is_over) {
    for (const v1::AgentMessage& message : launcher_->all_up_to(job_, Body::kHostEmpty)) inspect(message);
  }
  EXPECT_EQ(status, 5 << 8);
  // A third launcher receives all of the history.
  next_launcher("three");
  const auto history = launcher_->all_up_to(job_, Body::kHistoryEnd);
  ASSERT_GE(history.size(), 2U);
  EXPECT_TRUE(history[history.size() - 2].has_host_empty());
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, WhatIsNotHeldEndsWithItsLauncher) {
  start();
  start_job({sleeper()}, false);
  const auto before = std::chrono::steady_clock::now();
  launcher_.reset();
  EXPECT_EQ(left_after(job_, 10s), 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
  launcher_ = std::make_unique<FakeLauncher>(state_, "two");
  EXPECT_EQ(launcher_->next_hello().launcher_instance(), "one");
  EXPECT_TRUE(agent_->runs());
}

TEST_F(HeldJobsTest, ACutAloneChangesNothing) {
  start();
  start_job({sleeper()}, false);
  for (int i = 0; i < 3; ++i) {
    launcher_->cut();
    const v1::Hello hello = launcher_->next_hello();
    EXPECT_EQ(hello.launcher_instance(), "one");
    EXPECT_GE(hello.resume_from(), 2U);
  }
  // A launcher that knows the history does not receive it again.
  launcher_->send(stop(job_));
  for (const v1::AgentMessage& message : launcher_->all_up_to(job_, Body::kHostEmpty)) {
    EXPECT_FALSE(message.has_job_opened() || message.has_history_end() || message.has_rank_started());
  }
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, OrdersGivenWhileTheLinkIsCutAreKept) {
  start();
  launcher_->cut();
  launcher_->send(open_job(job_, state_, true));
  launcher_->next_hello();
  EXPECT_EQ(launcher_->next_of(job_, Body::kJobOpened).job_opened().error(), "");
  // The answer to the next order is lost with its launcher.
  launcher_->send(launch(job_, {{"true"}}));
  EXPECT_TRUE(eventually(10s, [this] { return launcher_->last_received() >= 2; }));
  next_launcher("two");
  ASSERT_EQ(launcher_->next_hello().held_jobs_size(), 1);
  const auto history = launcher_->all_up_to(job_, Body::kHistoryEnd);
  ASSERT_FALSE(history.empty());
  EXPECT_TRUE(history[0].has_job_opened());
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, ALauncherThatGoesWhileAJobIsOpened) {
  start();
  for (int i = 0; i < 5; ++i) {
    const std::string instance = "next" + std::to_string(i);
    launcher_->send(open_job(job_, state_, true));
    next_launcher(instance);
    const v1::Hello hello = launcher_->next_hello();
    if (hello.held_jobs_size() == 0) continue;  // the order was lost with the launcher
    const auto history = launcher_->all_up_to(job_, Body::kHistoryEnd);
    ASSERT_EQ(history.size(), 2U);
    EXPECT_EQ(history[0].job_opened().error(), "");
    launcher_->send(leave(job_));
    EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  }
}

TEST_F(HeldJobsTest, TheLeaseEndsTheRanksAndThenTheAgent) {
  start({}, [](v1::AgentJoin& join) { join.set_lease_ms(300); });
  start_job({sleeper()}, true, 1500ms);
  const auto before = std::chrono::steady_clock::now();
  launcher_.reset();  // takes its time on a busy machine
  EXPECT_EQ(left_after(job_, 10s), 0U);
  EXPECT_GT(std::chrono::steady_clock::now() - before, 1s);
  EXPECT_TRUE(agent_->ended_well());
}

// The agent's lease expires while the link is cut, and then the link comes back.
TEST_F(HeldJobsTest, EndOfTheLeaseIsReportedAsFailureWhenTheLauncherIsBack) {
  start();
  start_job({sleeper()}, true, 1500ms);
  launcher_->refuse_streams(true);
  launcher_->cut();
  EXPECT_EQ(left_after(job_, 20s), 0U);
  launcher_->refuse_streams(false);
  const v1::AgentMessage exited = launcher_->next_of(job_, Body::kRankExited);
  EXPECT_TRUE(exited.rank_exited().stopped_by_us());
  const v1::AgentMessage empty = launcher_->next_of(job_, Body::kHostEmpty);
  EXPECT_NE(empty.host_empty().failure().find("lease"), std::string::npos) << empty.ShortDebugString();
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, NoLineIsLostWhileNobodyTakesOutput) {
  ReceivedOutput taken;
  auto hub = std::make_unique<FakeHub>(state_, std::vector{output_key(job_)}, taken);
  start();
  // The output is twenty times as large as the agent's memory for it, and comes after the launcher has gone.
  const std::string flood = "seq 1 2000; read x < " + fifo_ + "; seq 2001 12000000";
  start_job({{"sh", "-c", flood}}, true);
  const std::string identity = output_key(job_).identity;
  EXPECT_TRUE(taken.wait_until([&] { return taken.stdout_of[identity + " 0"].ends_with("\n2000\n"); }));
  hub.reset();
  launcher_.reset();
  let_go();
  // The rank does not wait: it ends, and all of its output waits for a launcher.
  EXPECT_TRUE(eventually(60s, [this] { return processes_with(fifo_).empty(); }));
  hub = std::make_unique<FakeHub>(state_, std::vector{output_key(job_)}, taken);
  launcher_ = std::make_unique<FakeLauncher>(state_, "two");
  EXPECT_TRUE(launcher_->next_of(job_, Body::kHistoryEnd).has_history_end());
  EXPECT_TRUE(taken.wait_until([&] { return taken.finished[identity] == 1; }));
  const std::string& text = taken.stdout_of[identity + " 0"];
  std::size_t at = 0;
  int lines = 0;
  while (at < text.size()) {
    const std::string expected = std::to_string(lines + 1) + "\n";
    ASSERT_EQ(text.compare(at, expected.size(), expected), 0) << "line " << lines + 1;
    at += expected.size();
    ++lines;
  }
  EXPECT_EQ(lines, 12'000'000);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(HeldJobsTest, ASpoolThatIsFullHoldsTheRankUp) {
  ReceivedOutput taken;
  start({"MUSTER_SPOOL_MIB=0"});
  {
    const FakeHub hub(state_, {output_key(job_)}, taken);  // it only reserves its port, so no hub listens there
  }
  start_job({{"sh", "-c", "seq 1 3000000; : " + job_}}, true);
  launcher_.reset();
  launcher_ = std::make_unique<FakeLauncher>(state_, "two");
  EXPECT_TRUE(launcher_->next_of(job_, Body::kHistoryEnd).has_history_end());
  EXPECT_EQ(processes_with(job_).size(), 1U);
  const FakeHub hub(state_, {output_key(job_)}, taken);
  const std::string identity = output_key(job_).identity;
  EXPECT_TRUE(taken.wait_until([&] { return taken.finished[identity] == 1; }));
  EXPECT_TRUE(taken.stdout_of[identity + " 0"].ends_with("\n2999999\n3000000\n"));
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

}  // namespace
}  // namespace muster::agent::held_jobs_test
