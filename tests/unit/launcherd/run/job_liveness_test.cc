// How long a job waits for a silent host. The agent and the clock are fakes.
#include <functional>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/agents/job_agents.h"
#include "launcherd/run/job_runner.h"
#include "model/job_placement.h"
#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::job_liveness_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kPing = 500ms;  // between two ticks
constexpr int kMostTicks = 12;
constexpr int kRanks = 2;

// The agent of the only host. It carries out orders at once and answers pings as the test demands.
class FakeAgent final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost>, OutputSink*, AgentListener* the_listener) override {
    listener = the_listener;
    listener->agent_started(0);
    listener->agent_stream(0, true);
    AgentUp up;
    up.hello.set_hostname("n1");
    up.hello.add_interfaces()->set_address("192.0.2.1");
    up.hello.set_containment("subreaper");
    up.link = "dial";
    listener->agent_up(0, std::move(up));
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int, v1::LauncherMessage message) override {
    v1::AgentMessage answer;
    if (message.has_owner_question()) ++owner_questions;
    if (message.has_prepare()) {
      answer.mutable_prepared()->set_interface("eth0");
      answer.mutable_prepared()->set_address("192.0.2.1");
      listener->agent_message(0, answer);
    }
    if (message.has_launch()) {
      answer.mutable_launched();
      listener->agent_message(0, answer);
    }
  }
  void send_unnumbered(int, v1::LauncherMessage message) override { on_ping(message.ping()); }
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override { ADD_FAILURE() << "it lives"; }
  void leave(int) override {}
  void drop(int) override {}
  void sweep(int, std::function<void(base::Result<CommandResult>)> done) override {
    ++probes;
    if (!on_probe) return;  // the host is not reachable
    done(on_probe());
  }

  void pong(const v1::Ping& ping) const {
    v1::AgentMessage message;
    message.mutable_pong()->set_launcher_ns(ping.launcher_ns());
    message.mutable_pong()->set_agent_ns(ping.launcher_ns());
    listener->agent_message(0, message);
  }
  void ranks_end() const {
    for (int rank = 0; rank < kRanks; ++rank) {
      v1::AgentMessage message;
      message.mutable_rank_exited()->set_rank(rank);
      listener->agent_message(0, message);
    }
    v1::AgentMessage message;
    message.mutable_host_empty();
    listener->agent_message(0, message);
  }

  // Another host's connection to the job's store comes from there.
  void ask_for_owner() const {
    v1::AgentMessage message;
    message.mutable_owner_question()->set_peer("192.0.2.1");
    listener->agent_message(0, message);
  }

  std::function<void(const v1::Ping&)> on_ping;
  std::function<CommandResult()> on_probe;
  int probes = 0;
  int owner_questions = 0;
  AgentListener* listener = nullptr;
};

class JobLivenessTest : public ::testing::Test, private JobObserver {
 protected:
  // The outcome of a job with this lease; `at_tick` is called at every one, which it counts, after the job's first.
  JobOutcome run(std::chrono::milliseconds lease, const std::function<void(int, const v1::Ping&)>& at_tick) {
    model::JobSpec job;
    job.command = {"true"};
    job.lease = lease;
    job.placement.hosts = {{.name = "n1", .slots = kRanks}};
    job.placement.np = kRanks;
    auto placement = model::place(job);
    EXPECT_TRUE(placement.ok()) << placement.status();
    int ticks = 0;
    agent_->on_ping = [&](const v1::Ping& ping) {
      if (++ticks > kMostTicks) {
        ADD_FAILURE() << "the job waits on";
        return loop_.stop();
      }
      at_tick(ticks, ping);
    };
    JobObserver* const observer = this;
    JobRunner runner(loop_, clock_, {job, *placement, {.job_id = "abcdefgh"}, {}, &sink_, observer}, agent_);
    const base::Status started = runner.start();
    EXPECT_TRUE(started.ok()) << started;
    loop_.run();
    return outcome_.value_or(JobOutcome());
  }

  base::Loop loop_;
  base::FakeClock clock_;
  const std::shared_ptr<FakeAgent> agent_ = std::make_shared<FakeAgent>();
  std::vector<std::string> warnings_;

 private:
  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {}
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& outcome) override {
    outcome_ = outcome;
    loop_.stop();
  }

  testing_support::NoOutput sink_;
  std::optional<JobOutcome> outcome_;
};

TEST_F(JobLivenessTest, ASilentHostIsLostWhenItsLeaseIsOver) {
  const JobOutcome outcome = run(1s, [&](int, const v1::Ping&) { clock_.advance(kPing); });
  EXPECT_EQ(outcome.exit_code, 125);
  ASSERT_EQ(outcome.host_failures.size(), 1U);
  EXPECT_THAT(outcome.host_failures[0].message, HasSubstr("n1: not heard of for 1 s (its lease)"));
  EXPECT_EQ(outcome.unclean.size(), 1U);
}

// Both its agent and its warden were stopped: the log-in continues them, and the job goes on.
TEST_F(JobLivenessTest, SilentHostIsProbedAndGoesOnWhenItsAgentWasStopped) {
  bool is_continued = false;
  agent_->on_probe = [&] {
    is_continued = true;
    return CommandResult{
        .exit_status = 1, .output = "", .errors = "pid 7 (muster-agent) was stopped: it was continued\n"};
  };
  const JobOutcome outcome = run(5s, [&](int tick, const v1::Ping& ping) {
    clock_.advance(kPing);
    if (!is_continued) return;
    agent_->pong(ping);
    if (tick < kMostTicks) return;
    agent_->ranks_end();
    agent_->listener->output_complete(0);
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(agent_->probes, 1);
  EXPECT_THAT(warnings_, ::testing::Contains("n1: pid 7 (muster-agent) was stopped: it was continued"));
}

TEST_F(JobLivenessTest, UnansweredProbeDoesNotDelayTheEndOfTheLease) {
  const JobOutcome outcome = run(4s, [&](int, const v1::Ping&) { clock_.advance(kPing); });
  EXPECT_EQ(outcome.exit_code, 125);
  EXPECT_EQ(agent_->probes, 1);
}

TEST_F(JobLivenessTest, AStallOfTheLauncherIsNoSilenceOfTheHost) {
  int answered = 0;
  const JobOutcome outcome = run(2s, [&](int tick, const v1::Ping& ping) {
    if (tick == 1) return clock_.advance(60s);
    clock_.advance(kPing);
    if (tick == 2) return;  // what came meanwhile is read after this
    agent_->pong(ping);
    if (++answered < 2) return;
    agent_->ranks_end();
    agent_->listener->output_complete(0);
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.host_failures.empty());
}

TEST_F(JobLivenessTest, StallsOfTheLauncherDoNotBeginTheLeaseAnew) {
  const JobOutcome outcome = run(1s, [&](int, const v1::Ping&) { clock_.advance(3s); });
  EXPECT_EQ(outcome.exit_code, 125);
  ASSERT_EQ(outcome.host_failures.size(), 1U);
  EXPECT_THAT(outcome.host_failures[0].message, HasSubstr("n1: not heard of for 1 s (its lease)"));
}

TEST_F(JobLivenessTest, AHostThatFallsSilentWithOutputUnderWayIsLost) {
  const JobOutcome outcome = run(1s, [&](int tick, const v1::Ping&) {
    clock_.advance(kPing);
    if (tick == 1) agent_->ranks_end();
  });
  EXPECT_EQ(outcome.exit_code, 125);
  ASSERT_EQ(outcome.host_failures.size(), 1U);
  EXPECT_THAT(outcome.host_failures[0].message,
              HasSubstr("its ranks have ended, but not all that they wrote has come"));
  EXPECT_TRUE(outcome.unclean.empty());
}

TEST_F(JobLivenessTest, AHostThatAnswersMaySendItsOutputForLong) {
  const JobOutcome outcome = run(1s, [&](int tick, const v1::Ping& ping) {
    clock_.advance(kPing);
    agent_->pong(ping);
    if (tick == 1) agent_->ranks_end();
    if (tick == 6) agent_->listener->output_complete(0);
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.host_failures.empty());
}

// Rank 0's agent holds the job's store: ranks of other hosts come to it also when rank 0 has ended.
TEST_F(JobLivenessTest, AsksForOwnersAfterTheRanksOfAnAgentHaveEnded) {
  const JobOutcome outcome = run(1s, [&](int tick, const v1::Ping& ping) {
    clock_.advance(kPing);
    agent_->pong(ping);
    if (tick == 1) agent_->ranks_end();
    if (tick == 2) agent_->ask_for_owner();
    if (tick == 3) agent_->listener->output_complete(0);
  });
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(agent_->owner_questions, 1);
}

}  // namespace
}  // namespace muster::launcherd::job_liveness_test
