// A job with fake agents that seems to hang.
#include <signal.h>

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/job_placement.h"
#include "proto/hang_convert.h"
#include "tests/unit/launcherd/run/live_job_harness.h"
#include "tests/unit/model/hang_evidence.h"

namespace muster::launcherd::job_hang_test {
namespace {

using namespace std::chrono_literals;
using live_job_harness::LiveAgents;
using ::testing::HasSubstr;

class JobHangTest : public ::testing::Test, public JobObserver {
 protected:
  // Four hosts of one rank each.
  void run_job(model::HangPolicy policy, std::vector<model::Track> places) {
    places_ = std::move(places);
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list("n[1-4]:1", "-H");
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    job.hang = policy;
    const auto placement = model::place(job.placement);
    ASSERT_TRUE(placement.ok()) << placement.status();
    agents_->on_send = [this](int agent, const v1::LauncherMessage& message) { answer(agent, message); };
    LaunchOptions options;
    options.job_id = "abcdefgh";
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, *placement, options, base::Environment(), &sink_, this}, agents_);
    ASSERT_TRUE(runner_->start().ok());
    for (int agent = 0; agent < 4; ++agent) come_up(agent);
    turn_until([this] { return is_running_; });
  }
  void come_up(int agent) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(fmt::format("n{}", agent + 1));
    up.hello.add_cores()->add_cpus(0);
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.0.{}", agent + 1));
    agents_->to->agent_started(agent);
    agents_->to->agent_up(agent, std::move(up));
  }
  // Plays the agents. Each answer comes in a later turn of the loop.
  void answer(int agent, const v1::LauncherMessage& message) {
    loop_.post([this, agent, message] {
      v1::AgentMessage reply;
      if (message.has_prepare()) {
        reply.mutable_prepared()->set_interface("eth0");
        reply.mutable_prepared()->set_address(fmt::format("10.0.0.{}", agent + 1));
        reply.mutable_prepared()->set_master_port(4242);
      } else if (message.has_launch()) {
        reply.mutable_rank_started()->set_rank(agent);
        agents_->to->agent_message(agent, reply);
        reply.mutable_launched();
      } else if (message.has_evidence_question()) {
        ++questions_;
        const model::Track& track = places_.at(static_cast<std::size_t>(agent));
        model::RankEvidence evidence = track.at(static_cast<std::size_t>(questions_ - 1) / 4 % track.size()).evidence;
        evidence.rank = agent;
        reply.mutable_evidence_answer()->set_id(message.evidence_question().id());
        *reply.mutable_evidence_answer()->add_ranks() = proto::to_proto(evidence);
        if (message.evidence_question().asks_nccl()) {
          asked_for_nccl_.push_back(agent);
          reply.mutable_evidence_answer()->add_nccl()->set_text("rank 2 does not answer NCCL");
        }
      } else if (message.has_stop_ranks()) {
        return end(agent, SIGTERM, true);
      } else {
        return;
      }
      agents_->to->agent_message(agent, reply);
    });
  }
  void end(int agent, int wait_status, bool is_ours) {
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(agent);
    exited.mutable_rank_exited()->set_wait_status(wait_status);
    exited.mutable_rank_exited()->set_stopped_by_us(is_ours);
    agents_->to->agent_message(agent, exited);
    v1::AgentMessage empty;
    empty.mutable_host_empty()->set_no_output(true);
    agents_->to->agent_message(agent, empty);
  }
  void turn_until(const std::function<bool()>& is_done) { testing_support::turn_until(loop_, is_done); }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override { is_running_ = true; }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd& root) override { root_ = root; }
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }
  void on_hang_over(std::chrono::milliseconds silent) override { over_.push_back(silent); }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const hang = std::get_if<model::HangReported>(&event)) reports_.push_back(hang->report);
    if (const auto* const stopping = std::get_if<model::JobStopping>(&event)) stopped_ = stopping->reason;
  }

  base::SystemClock clock_;
  base::Loop loop_;
  testing_support::NoOutput sink_;
  std::shared_ptr<LiveAgents> agents_ = std::make_shared<LiveAgents>();
  std::unique_ptr<JobRunner> runner_;
  std::vector<model::Track> places_;
  int questions_ = 0;
  std::vector<int> asked_for_nccl_;  // agents
  bool is_running_ = false;
  std::vector<std::string> warnings_;
  std::vector<model::HangReport> reports_;
  std::vector<std::chrono::milliseconds> over_;
  std::string stopped_;
  std::optional<model::RankEnd> root_;
  std::optional<JobOutcome> outcome_;
};

std::vector<model::Track> hung() {
  return model::but({model::in_gloo()}, 2, {model::in_lock()});
}

TEST_F(JobHangTest, IsReportedAndGoesOn) {
  run_job({.timeout = 200ms}, hung());
  turn_until([this] { return !reports_.empty(); });
  EXPECT_THAT(reports_[0].cause, HasSubstr("rank 2 on n3 does not move"));
  EXPECT_EQ(reports_[0].size, 4);
  EXPECT_EQ(reports_[0].answered, 4);
  EXPECT_GE(reports_[0].silent_ms, 200);
  EXPECT_EQ(questions_, 12);
  EXPECT_EQ(asked_for_nccl_, std::vector<int>{0}) << "once, and only rank 0's host";
  ASSERT_EQ(reports_[0].nccl.size(), 1U);
  EXPECT_EQ(reports_[0].nccl[0].text, "rank 2 does not answer NCCL");
  EXPECT_FALSE(outcome_);
  EXPECT_EQ(stopped_, "");
}

TEST_F(JobHangTest, KillEndsItWithTheSuspectAsCause) {
  run_job({.timeout = 200ms, .on_hang = model::OnHang::kKill}, hung());
  turn_until([this] { return outcome_.has_value(); });
  EXPECT_EQ(outcome_->cause, StopCause::kHung);
  EXPECT_EQ(outcome_->exit_code, 128 + SIGKILL);
  EXPECT_THAT(stopped_, HasSubstr("it hung: rank 2 on n3"));
  ASSERT_TRUE(root_);
  EXPECT_EQ(root_->rank, 2);
  EXPECT_THAT(model::describe(*root_), HasSubstr("ended because the job hung: rank 2 on n3 does not move"));
}

TEST_F(JobHangTest, KillWithoutASuspectHasTheCodeOfATimeout) {
  run_job({.timeout = 200ms, .on_hang = model::OnHang::kKill}, std::vector<model::Track>(4, {model::in_key()}));
  turn_until([this] { return outcome_.has_value(); });
  EXPECT_EQ(outcome_->exit_code, 124);
  EXPECT_EQ(outcome_->root, -1);
}

TEST_F(JobHangTest, RestartLetsTheSuspectCountAsFailed) {
  run_job({.timeout = 200ms, .on_hang = model::OnHang::kRestart}, hung());
  turn_until([this] { return outcome_.has_value(); });
  EXPECT_EQ(outcome_->cause, StopCause::kPolicy);
  ASSERT_GE(outcome_->root, 0);
  EXPECT_EQ(outcome_->ends[static_cast<std::size_t>(outcome_->root)].rank, 2);
}

TEST_F(JobHangTest, IsNotAskedWhileItIsSuspended) {
  run_job({.timeout = 200ms}, hung());
  runner_->suspend(true, nullptr);
  base::Timer later = loop_.after(700ms, [this] { is_running_ = false; });
  turn_until([this] { return !is_running_; });
  EXPECT_EQ(questions_, 0);
  runner_->suspend(false, nullptr);
  turn_until([this] { return !reports_.empty(); });
}

TEST_F(JobHangTest, ExplainsItselfAtAnyTime) {
  run_job({.timeout = 0ms}, hung());
  std::optional<model::HangReport> report;
  ASSERT_TRUE(runner_->explain_hang([&](const model::HangReport& found) { report = found; }).ok());
  turn_until([&] { return report.has_value(); });
  ASSERT_TRUE(report->has_suspects());
  EXPECT_EQ(report->classes[0].ranks, std::vector<int>{2});
  EXPECT_TRUE(reports_.empty());
}

TEST_F(JobHangTest, CannotBeExplainedWithoutRanks) {
  run_job({.timeout = 0ms}, hung());
  for (int agent = 0; agent < 4; ++agent) end(agent, 0, false);
  turn_until([this] { return outcome_.has_value(); });
  EXPECT_EQ(runner_->explain_hang([](const model::HangReport&) {}).code(), base::Code::kFailedPrecondition);
}

}  // namespace
}  // namespace muster::launcherd::job_hang_test
