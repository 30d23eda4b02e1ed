// An agent that hvdrun keeps between the generations of a job, as a process, with a fake launcher: how it ends.
#include "agent/job/agent.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "agent/job/agent_lease.h"
#include "proto/agent_join.h"
#include "tests/unit/agent/job/debugger.h"
#include "tests/unit/agent/job/warm_harness.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::agent_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using testing::launch;
using Body = v1::AgentMessage;

constexpr auto kLong = 60s;   // a lease that does not end in a test
constexpr auto kBrief = 3s;   // a lease that ends in a test
constexpr auto kSlack = 10s;  // for what comes at once on an idle machine

// Sends pings until its end, also while the test's thread waits for the processor.
class Pings {
 public:
  explicit Pings(FakeLauncher& launcher)
      : thread_([this, &launcher] {
          while (!is_over_) {
            v1::LauncherMessage ping;
            ping.mutable_ping()->set_launcher_ns(1);
            launcher.send_unnumbered(ping);
            eventually(100ms, [this] { return is_over_.load(); });
          }
        }) {}
  Pings(const Pings&) = delete;
  Pings& operator=(const Pings&) = delete;
  ~Pings() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

class KeptAgentTest : public testing::WarmAgentFixture {
 protected:
  void start(std::chrono::milliseconds lease) {
    lease_ = lease;
    pings_.emplace(*launcher_);
    agent_ = std::make_unique<WarmAgent>(state_, ground_.session_root(), [lease](v1::AgentJoin& join) {
      join.set_idle_timeout_ms(proto::kUntilLogInEnds);
      join.set_lease_ms(lease.count());
    });
    ASSERT_EQ(agent_->link_line(), "MUSTER-LINK dial");
    ASSERT_EQ(launcher_->next_hello().job_id(), testing::kStateName);
    // The nursery may not have set its name yet.
    ASSERT_TRUE(eventually(kSlack, [this] { return (nursery_ = child_named(agent_->pid(), "muster-nursery")) > 0; }));
  }

  void open(int attempt = 0) {
    launcher_->send(open_job(job_, state_, false, lease_, attempt));
    ASSERT_EQ(launcher_->next_of(job_, Body::kJobOpened).job_opened().error(), "");
  }

  void launch_sleeper() {
    launcher_->send(launch(job_, {{ground_.victim("sleeper"), job_}}));
    ASSERT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  }

  void end_generation() {
    launcher_->send(leave(job_));
    ASSERT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  }

  void suspend(bool is_on) {
    v1::LauncherMessage message;
    message.set_job_id(job_);
    message.mutable_suspend()->set_on(is_on);
    launcher_->send(message);
    ASSERT_EQ(launcher_->next_of(job_, Body::kSuspended).suspended().on(), is_on);
  }

  // The wait status of the agent. -1 if it still runs after `bound`.
  int status_within(std::chrono::milliseconds bound) {
    int status = -1;
    const auto has_ended = [&] { return ::waitpid(agent_->pid(), &status, WNOHANG) == agent_->pid(); };
    if (!eventually(bound, has_ended)) return -1;
    agent_->forget();
    return status;
  }

  void expect_nothing_left() {
    EXPECT_EQ(left_after(job_, gone_within()), 0U);
    EXPECT_TRUE(eventually(gone_within(), [this] { return is_gone(nursery_); }));
    EXPECT_TRUE(eventually(gone_within(), [this] { return !ground_.has_sessions(); }));
  }

  std::chrono::milliseconds lease_{};
  pid_t nursery_ = 0;
  std::optional<Pings> pings_;  // until the step in which the lease may end
};

TEST_F(KeptAgentTest, StaysBetweenGenerationsAndEndsWithItsLogIn) {
  start(kLong);
  for (int attempt = 0; attempt < 2; ++attempt) {
    open(attempt);
    launch_sleeper();
    launcher_->send(stop(job_));
    EXPECT_TRUE(launcher_->next_of(job_, Body::kHostEmpty).has_host_empty());
    end_generation();
    EXPECT_TRUE(agent_->runs());
  }
  agent_->close_bootstrap();
  EXPECT_TRUE(agent_->ended_well(kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsWithItsLogInWhileRanksRun) {
  start(kLong);
  open();
  launch_sleeper();
  agent_->close_bootstrap();
  EXPECT_TRUE(agent_->ended_well());
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsByItsLeaseBeforeTheFirstGeneration) {
  start(kBrief);
  pings_.reset();
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsByItsLeaseBetweenGenerations) {
  start(kBrief);
  open();
  end_generation();
  pings_.reset();
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsByItsLeaseWhileRanksRun) {
  start(kBrief);
  open();
  launch_sleeper();
  pings_.reset();
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, StaysWithoutAGenerationWhileTheLauncherSendsPings) {
  start(kBrief);
  EXPECT_FALSE(agent_->ended_well(kBrief + 1s));
  EXPECT_TRUE(agent_->runs());
}

TEST_F(KeptAgentTest, IsKilledAfterItsLeaseIfItIsStopped) {
  start(kBrief);
  open();
  end_generation();
  ASSERT_TRUE(stop_process(agent_->pid()));
  pings_.reset();
  EXPECT_EQ(status_within(kBrief + AgentLease::kHangBound + kSlack), SIGKILL);
  expect_nothing_left();
}

TEST_F(KeptAgentTest, IsKilledIfItHangsAtItsEnd) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may trace a nursery";
  start(kLong);
  {
    const Debugger debugger(nursery_);  // the agent waits for the end of its nursery
    ASSERT_TRUE(debugger.is_held());
    agent_->close_bootstrap();
    EXPECT_EQ(status_within(kEndBound + kSlack), SIGKILL);
  }
  expect_nothing_left();
}

TEST_F(KeptAgentTest, OpensNoJobWhileItEnds) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may trace a warden";
  start(kLong);
  open();
  launch_sleeper();
  pid_t warden = 0;
  ASSERT_TRUE(eventually(kSlack, [&] { return (warden = child_named(agent_->pid(), "muster-warden")) > 0; }));
  const Debugger debugger(warden);  // the agent waits for a second before it kills its warden
  ASSERT_TRUE(debugger.is_held());
  agent_->close_bootstrap();
  std::string error;
  while (error.empty() && agent_->runs()) {  // jobs that it opens before it has noticed end with it
    const std::string other = new_job();
    launcher_->send(open_job(other, state_));
    error = launcher_->next_of(other, Body::kJobOpened).job_opened().error();
  }
  EXPECT_TRUE(error.empty() || error == "this agent is ending") << error;  // empty if it has ended already
  EXPECT_TRUE(agent_->ended_well(kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, AStoppedNurseryDoesNotHoldUpTheEnd) {
  start(kLong);
  ASSERT_TRUE(stop_process(nursery_));
  agent_->close_bootstrap();
  EXPECT_TRUE(agent_->ended_well(kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, AStoppedNurseryEndsWithItsAgent) {
  start(kLong);
  ASSERT_TRUE(stop_process(nursery_));
  agent_->kill_now();
  EXPECT_EQ(status_within(kSlack), SIGKILL);
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsBySigtermWhileRanksRun) {
  start(kLong);
  open();
  launch_sleeper();
  ASSERT_EQ(::kill(agent_->pid(), SIGTERM), 0);
  EXPECT_EQ(status_within(kSlack), SIGTERM);
  expect_nothing_left();
}

TEST_F(KeptAgentTest, EndsBySigtermBetweenGenerations) {
  start(kLong);
  open();
  end_generation();
  ASSERT_EQ(::kill(agent_->pid(), SIGTERM), 0);
  EXPECT_EQ(status_within(kSlack), SIGTERM);
  expect_nothing_left();
}

TEST_F(KeptAgentTest, ASuspendedGenerationStopsTheLease) {
  start(kBrief);
  open();
  launch_sleeper();
  suspend(true);
  pings_.reset();
  EXPECT_FALSE(agent_->ended_well(kBrief + 2s));
  ASSERT_TRUE(agent_->runs());
  suspend(false);
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, ASuspensionEndsWithItsGeneration) {
  start(kBrief);
  open();
  launch_sleeper();
  suspend(true);
  end_generation();
  pings_.reset();
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

TEST_F(KeptAgentTest, ASuspensionDoesNotReachTheNextGeneration) {
  start(kBrief);
  open();
  launch_sleeper();
  suspend(true);
  end_generation();
  open(1);
  launch_sleeper();
  pings_.reset();
  EXPECT_TRUE(agent_->ended_well(kBrief + kSlack));
  expect_nothing_left();
}

// The connection that watches a suspended launcher reports the launcher's end at once. It must not outlive the
// suspension.
TEST_F(KeptAgentTest, ASuspensionOfTheLastGenerationDoesNotWatchTheLauncher) {
  start(kLong);
  open();
  launch_sleeper();
  suspend(true);
  end_generation();
  pings_.reset();
  launcher_.reset();
  EXPECT_FALSE(agent_->ended_well(4s));  // the watch connects again after 1 s, and then the port refuses
  EXPECT_TRUE(agent_->runs());
}

}  // namespace
}  // namespace muster::agent::agent_test
