// A job whose ranks change, with fake agents.
#include "tests/unit/launcherd/run/live_job_harness.h"

namespace muster::launcherd::job_live_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class JobLiveTest : public live_job_harness::LiveJobHarness {};

TEST_F(JobLiveTest, EndsWellWithoutAnyChange) {
  run_job(2);
  EXPECT_EQ(on_running_, 1);
  const v1::Launch& launch =
      std::ranges::find(agents_->sent[1], v1::LauncherMessage::kLaunch, &v1::LauncherMessage::body_case)->launch();
  ASSERT_EQ(launch.live_members_size(), 2);
  EXPECT_EQ(launch.live_members(1).number(), 3);
  EXPECT_EQ(launch.live_members(1).local_rank(), 1);
  const auto has = [&](const std::string& name, const std::string& value) {
    return std::ranges::any_of(launch.ranks(0).environment(),
                               [&](const v1::EnvVar& each) { return each.name() == name && each.value() == value; });
  };
  EXPECT_TRUE(has("HOROVOD_ELASTIC", "1"));
  EXPECT_TRUE(has("MUSTER_GENERATION", "0"));
  for (const int number : {0, 1, 2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(begun_.empty());
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(outcome().ends.size(), 4U);
}

TEST_F(JobLiveTest, GoesOnWithoutTheHostOfAKilledRank) {
  run_job(2);
  end(3, SIGKILL);
  EXPECT_FALSE(outcome_.has_value());
  check_in({0, 1, 2});
  await_generations(1);
  EXPECT_EQ(begun_[0].number, 1);
  EXPECT_THAT(begun_[0].reason, HasSubstr("rank 3: "));
  EXPECT_EQ(begun_[0].from, 4);
  EXPECT_EQ(begun_[0].to, 2);
  EXPECT_EQ(begun_[0].lost, std::vector<std::string>{"n2"});
  EXPECT_EQ(begun_[0].former, (std::vector<int>{0, 1}));
  ASSERT_EQ(begun_[0].placement.hosts.size(), 1U);
  EXPECT_EQ(begun_[0].placement.hosts[0].host.name, "n1");
  EXPECT_EQ(agents_->count(0, v1::LauncherMessage::kBeginGeneration), 1);
  turn_until([this] { return !running_.contains(2); });  // ended, because its host is black-listed
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(outcome().root, -1);
  EXPECT_EQ(outcome().ranks, 2);
  EXPECT_EQ(outcome().hosts, 1);
}

TEST_F(JobLiveTest, TellsTheFirstCollectiveOfAGenerationOnce) {
  run_job(2);
  const auto report = [this](int generation) {
    v1::AgentMessage message;
    message.mutable_first_collective()->set_generation(generation);
    agents_->to->agent_message(0, message);
  };
  report(0);
  report(1);
  EXPECT_TRUE(collectives_.empty()) << "the generation has not begun";
  end(3, SIGKILL);
  check_in({0, 1, 2});
  await_generations(1);
  report(2);
  EXPECT_TRUE(collectives_.empty()) << "another generation";
  report(1);
  report(1);
  ASSERT_EQ(collectives_.size(), 1U);
  EXPECT_EQ(collectives_[0].generation, 1);
  EXPECT_GE(collectives_[0].elapsed, begun_[0].elapsed) << "both count from the failure";
  turn_until([this] { return !running_.contains(2); });
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, GoesOnWhenAllRanksOfAHostAreKilled) {
  run_job(2);
  end(2, SIGKILL);
  end(3, SIGKILL);
  check_in({0, 1});
  await_generations(1);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, GoesOnWhenAnAgentIsKilled) {
  run_job(2);
  lose_agent(1);
  EXPECT_EQ(agents_->count(0, v1::LauncherMessage::kStopRanks), 0);
  check_in({0, 1});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_THAT(warnings_[0], HasSubstr("n2: the agent there ended"));
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(outcome().host_failures.empty());
  EXPECT_TRUE(outcome().unclean.empty());
}

TEST_F(JobLiveTest, RanksAreNumberedAnewWhenRankZerosHostIsLost) {
  run_job(3);
  lose_agent(0);
  EXPECT_EQ(agents_->count(1, v1::LauncherMessage::kStoreLost), 1);
  EXPECT_EQ(agents_->count(2, v1::LauncherMessage::kStoreLost), 1);
  check_in({2, 3, 4, 5});
  await_generations(1);
  EXPECT_EQ(begun_[0].former, (std::vector<int>{2, 3, 4, 5}));
  const v1::BeginGeneration& begin = agents_->sent[2].back().begin_generation();
  EXPECT_EQ(begin.horovod_address(), "10.0.0.2");
  EXPECT_EQ(begin.horovod_port(), 4001);
  ends_.clear();
  for (const int number : {2, 3, 4}) end(number, 0);
  end(5, 7 << 8);
  EXPECT_EQ(outcome().exit_code, 7);
  ASSERT_TRUE(root_.has_value());
  EXPECT_EQ(root_->rank, 3) << "its rank in the last generation";
  EXPECT_EQ(root_->host, "n3");
  ASSERT_EQ(ends_.size(), 4U);
  EXPECT_EQ(ends_[0].rank, 0);
}

TEST_F(JobLiveTest, TwoFailuresAtOnceLeadToOneGeneration) {
  run_job(3);
  lose_agent(2);
  end(3, SIGKILL);
  check_in({0, 1, 2});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(begun_.size(), 1U);
}

TEST_F(JobLiveTest, AFailureWhileTheStoreOpensLeadsToAnotherPlan) {
  run_job(3);
  opens_stores_ = false;
  end(5, SIGKILL);
  check_in({0, 1, 2, 3, 4});
  turn_until([this] { return agents_->count(0, v1::LauncherMessage::kPrepareGeneration) == 1; });
  opens_stores_ = true;
  lose_agent(0);
  await_generations(1);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_[0].from, 6);
  EXPECT_EQ(begun_[0].to, 2);
  EXPECT_EQ(begun_[0].lost, (std::vector<std::string>{"n1", "n3"}));
  EXPECT_EQ(begun_[0].former, (std::vector<int>{2, 3}));
  for (const int number : {2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, AFailureInTheNextGenerationLeadsToAnotherOne) {
  run_job(3);
  end(5, SIGKILL);
  check_in({0, 1, 2, 3, 4});
  await_generations(1);
  end(2, SIGKILL);
  check_in({0, 1, 3});
  await_generations(2);
  EXPECT_EQ(begun_[1].number, begun_[0].number + 1);
  EXPECT_EQ(begun_[1].from, 4);
  EXPECT_EQ(begun_[1].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, TheLastHostsFailureEndsTheJob) {
  run_job(2);
  lose_agent(1);
  check_in({0, 1});
  await_generations(1);
  end(0, 3 << 8);
  end(1, 3 << 8);
  EXPECT_EQ(outcome().exit_code, 3);
  EXPECT_EQ(outcome().root, 0);
}

TEST_F(JobLiveTest, EndsIfTooFewRanksAreLeft) {
  run_job(2, {.min_ranks = 3, .elastic_timeout = 0s});
  end(3, SIGKILL);
  check_in({0, 1, 2});
  EXPECT_EQ(outcome().exit_code, 137);
  EXPECT_TRUE(running_.empty());
  EXPECT_TRUE(begun_.empty());
}

TEST_F(JobLiveTest, AStopEndsAllRanksInEveryPhase) {
  for (const int phase : {0, 1, 2, 3}) {
    agents_ = std::make_shared<live_job_harness::LiveAgents>();
    running_.clear();
    begun_.clear();
    outcome_.reset();
    opens_stores_ = phase != 2;
    run_job(2);
    if (phase >= 1) end(3, SIGKILL);  // the job waits for the others
    if (phase >= 2) check_in({0, 1, 2});
    if (phase == 2) turn_until([&] { return agents_->count(0, v1::LauncherMessage::kPrepareGeneration) > 0; });
    if (phase == 3) await_generations(1);
    runner_->stop(StopCause::kInterrupt);
    EXPECT_EQ(outcome().exit_code, 130) << phase;
    EXPECT_TRUE(running_.empty()) << phase;
    EXPECT_EQ(begun_.size(), phase == 3 ? 1U : 0U) << phase;
  }
}

TEST_F(JobLiveTest, ALiveJobOfLauncherdRefusesTwoNamesOfOneHost) {
  options_.live_share = [](const std::string&) { return model::HostShare(); };
  start_agents(2);
  come_up(0);
  come_up(1, "n1", 0);
  EXPECT_NE(outcome().exit_code, 0);
  ASSERT_FALSE(outcome().host_failures.empty());
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("n1 and n2 are the same host, and a job whose ranks"));
  EXPECT_EQ(agents_->count(0, v1::LauncherMessage::kLaunch), 0);
}

TEST_F(JobLiveTest, ReportsItsHostsBeforeItTakesAnotherList) {
  run_job(2);
  report_ = {};
  end(3, SIGKILL);
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:2,n2:2", "hosts")).ok());
  ASSERT_EQ(report_.hosts.size(), 2U) << "the caller needs the newest report to free slots";
  EXPECT_EQ(report_.hosts[0].processes, 2);
  EXPECT_EQ(report_.hosts[1].processes, 1);
  running_.clear();
  runner_->stop(StopCause::kInterrupt);
}

TEST_F(JobLiveTest, OnlyALiveJobThatGoesOnTakesAnotherListOfHosts) {
  run_job(2);
  EXPECT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:2,n2:2", "hosts")).ok());
  EXPECT_TRUE(runner_->set_live_size(1, 4).ok());
  runner_->stop(StopCause::kInterrupt);
  EXPECT_EQ(runner_->set_live_hosts({}).code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(runner_->set_live_size(1, 4).code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(outcome().exit_code, 130);
}

TEST_F(JobLiveTest, AHostThatLiesAboutProcessesIsIgnored) {
  run_job(2);
  v1::AgentMessage message;
  message.mutable_check_in()->set_number(0);
  agents_->to->agent_message(1, message);
  message.mutable_first_put()->set_number(1 << 20);
  agents_->to->agent_message(1, message);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("n2: its agent reports on rank 0"));
  for (const int number : {0, 1, 2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

}  // namespace
}  // namespace muster::launcherd::job_live_test
