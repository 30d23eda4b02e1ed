// Processes and hosts join a job whose ranks change, with fake agents.
#include "tests/unit/launcherd/run/live_job_harness.h"

namespace muster::launcherd::job_joins_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class JobJoinsTest : public live_job_harness::LiveJobHarness {};

TEST_F(JobJoinsTest, AHostJoinsTheRunningJob) {
  add_host();
  ASSERT_EQ(agents_->added.size(), 1U);
  EXPECT_EQ(agents_->added[0].target.name, "n2");
  hosts_up_.clear();
  ups_.clear();
  come_up(1);
  turn_until([this] { return last(1, v1::LauncherMessage::kLaunch) != nullptr; });
  const v1::Prepare& prepare = last(1, v1::LauncherMessage::kPrepare)->prepare();
  EXPECT_EQ(prepare.master_address(), "10.0.0.1");
  EXPECT_EQ(prepare.session_secret(), last(0, v1::LauncherMessage::kPrepare)->prepare().session_secret());
  const v1::Launch launch = last(1, v1::LauncherMessage::kLaunch)->launch();
  EXPECT_TRUE(launch.joins());
  ASSERT_EQ(launch.ranks_size(), 2);
  EXPECT_EQ(launch.ranks(1).rank(), 3);
  ASSERT_EQ(launch.live_members_size(), 2);
  EXPECT_EQ(launch.live_members(1).number(), 3);
  EXPECT_EQ(launch.live_members(1).size(), 4);
  const auto has = [&](const std::string& name, const std::string& value) {
    return std::ranges::any_of(launch.ranks(1).environment(),
                               [&](const v1::EnvVar& each) { return each.name() == name && each.value() == value; });
  };
  EXPECT_TRUE(has("HOROVOD_RANK", "3"));
  EXPECT_TRUE(has("HOROVOD_SIZE", "4"));
  EXPECT_TRUE(has("HOROVOD_LOCAL_RANK", "1"));
  EXPECT_TRUE(has("HOROVOD_CROSS_SIZE", "2"));
  EXPECT_TRUE(has("MUSTER_GENERATION", "1"));
  EXPECT_TRUE(begun_.empty());
  start_processes(1, launch);
  await_generations(1);
  EXPECT_EQ(begun_[0].from, 2);
  EXPECT_EQ(begun_[0].to, 4);
  EXPECT_EQ(begun_[0].added, std::vector<std::string>{"n2"});
  EXPECT_EQ(begun_[0].former, (std::vector<int>{0, 1, -1, -1}));
  EXPECT_EQ(hosts_up_, std::vector<std::string>{"n2"}) << "after the generation, which names the host";
  ASSERT_EQ(ups_.size(), 2U);
  EXPECT_EQ(ups_[1].rank, 3);
  EXPECT_EQ(ups_[1].pid, 1003);
  ASSERT_EQ(bound_.size(), 4U);
  EXPECT_EQ(bound_[3].rank, 3);
  EXPECT_EQ(bound_[3].host, "n2");
  EXPECT_EQ(bound_[3].local_rank, 1);
  for (const int number : {0, 1, 2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(outcome().ranks, 4);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(JobJoinsTest, ProcessesJoinOnAHostOfTheJob) {
  run_job(1, {.min_ranks = 1});
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:3", "hosts")).ok());
  check_in({0, 1});
  turn_until([this] { return last(0, v1::LauncherMessage::kAddWorld) != nullptr; });
  const v1::AddWorld order = last(0, v1::LauncherMessage::kAddWorld)->add_world();
  EXPECT_EQ(order.first(), 2);
  EXPECT_FALSE(order.launch().joins());
  ASSERT_EQ(order.launch().live_members_size(), 1);
  EXPECT_EQ(order.launch().live_members(0).local_rank(), 2);
  EXPECT_TRUE(agents_->added.empty());
  start_processes(0, order.launch());
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 3);
  running_.clear();
  runner_->stop(StopCause::kInterrupt);
}

TEST_F(JobJoinsTest, TheJobGoesOnIfAnAddedHostDoesNotStart) {
  add_host();
  agents_->to->agent_failed(1, "n2: no log-in");
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  EXPECT_EQ(warnings_, std::vector<std::string>{"n2: no log-in"});
  EXPECT_TRUE(agents_->dropped.contains(1));
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(outcome().host_failures.empty());
}

TEST_F(JobJoinsTest, AHostThatIsInTheJobAlreadyCannotJoinByAnotherName) {
  run_job(1, {.min_ranks = 1});
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:2,other:2", "hosts")).ok());
  check_in({0, 1});
  turn_until([this] { return agents_->begun.contains(1); });
  come_up(1, "n1", 0);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("n1 and other are the same host"));
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobJoinsTest, OnlyTheHostWithoutAShareLeaves) {
  options_.live_share = [](const std::string& host) -> base::Result<model::HostShare> {
    if (host == "n3") return base::unavailable("n3: not decided");
    return model::HostShare{.cpus = {0, 1}};
  };
  run_job(1, {.min_ranks = 1});
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n[1-3]:2", "hosts")).ok());
  check_in({0, 1});
  turn_until([this] { return agents_->begun.contains(2); });
  come_up(1);
  come_up(2);
  turn_until([this] { return last(1, v1::LauncherMessage::kLaunch) != nullptr; });
  start_processes(1, last(1, v1::LauncherMessage::kLaunch)->launch());
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 4);
  EXPECT_EQ(begun_[0].added, std::vector<std::string>{"n2"});
  EXPECT_EQ(warnings_, std::vector<std::string>{"n3: not decided"});
  running_.clear();
  runner_->stop(StopCause::kInterrupt);
}

TEST_F(JobJoinsTest, FurtherSlotsWithoutAShareLeaveAlone) {
  bool is_decided = true;
  options_.live_share = [&](const std::string& host) -> base::Result<model::HostShare> {
    if (host == "n1" && !is_decided) return base::unavailable("n1: not decided");
    return model::HostShare{.cpus = {0, 1}};
  };
  run_job(1, {.min_ranks = 1});
  is_decided = false;
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:3", "hosts")).ok());
  check_in({0, 1});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  turn_until([this] { return report_.hosts.size() == 1 && report_.hosts[0].limit.has_value(); });  // reported later
  EXPECT_EQ(report_.hosts[0].limit, 2) << "the third slot may be used by others";
  EXPECT_FALSE(report_.hosts[0].is_excluded);
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:2", "hosts")).ok());
  EXPECT_FALSE(report_.hosts[0].limit.has_value());
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobJoinsTest, ProcessesThatJoinLeaveTheOthersTheirCores) {
  cores_ = 6;
  share_ = model::HostShare{.cpus = {2, 3, 4, 5}};
  options_.live_share = [](const std::string&) { return model::HostShare{.cpus = {0, 1, 2, 3, 4, 5}}; };
  run_job(1, {.min_ranks = 1});
  ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:3", "hosts")).ok());
  check_in({0, 1});
  turn_until([this] { return last(0, v1::LauncherMessage::kAddWorld) != nullptr; });
  const v1::Launch launch = last(0, v1::LauncherMessage::kAddWorld)->add_world().launch();
  ASSERT_EQ(launch.ranks_size(), 1);
  EXPECT_THAT(launch.ranks(0).cpus(), ::testing::ElementsAre(0, 1));
  start_processes(0, launch);
  await_generations(1);
  ASSERT_EQ(bound_.size(), 3U);
  EXPECT_THAT(bound_[0].cpus, ::testing::ElementsAre(2, 3));
  EXPECT_THAT(bound_[2].cpus, ::testing::ElementsAre(0, 1));
  running_.clear();
  runner_->stop(StopCause::kInterrupt);
}

TEST_F(JobJoinsTest, AStopEndsTheStartOfAnAddedHost) {
  for (const int phase : {0, 1, 2}) {
    agents_ = std::make_shared<live_job_harness::LiveAgents>();
    running_.clear();
    outcome_.reset();
    add_host();
    if (phase == 1) agents_->to->agent_started(1);
    if (phase == 2) {
      silent_.insert(1);
      come_up(1);
    }
    runner_->stop(StopCause::kInterrupt);
    EXPECT_EQ(outcome().exit_code, 130) << phase;
    EXPECT_TRUE((phase == 2 ? agents_->left : agents_->dropped).contains(1)) << phase;
    silent_.clear();
  }
}

TEST_F(JobJoinsTest, AStopEndsProcessesThatJoin) {
  add_host();
  come_up(1);
  turn_until([this] { return last(1, v1::LauncherMessage::kLaunch) != nullptr; });
  for (const int number : {2, 3}) running_.insert(number);
  runner_->stop(StopCause::kInterrupt);
  EXPECT_EQ(outcome().exit_code, 130);
  EXPECT_TRUE(running_.empty());
  EXPECT_EQ(agents_->count(1, v1::LauncherMessage::kStopRanks), 1);
}

TEST_F(JobJoinsTest, AnAddedHostIsLostWhileItsProcessesStart) {
  add_host();
  come_up(1);
  turn_until([this] { return last(1, v1::LauncherMessage::kLaunch) != nullptr; });
  silent_.insert(1);
  agents_->to->agent_gone(1, base::error(base::Code::kUnavailable, "killed"));
  agents_->sweeps.at(1)(CommandResult{0, "", ""});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobJoinsTest, AHostReturnsAfterItsCooldown) {
  run_job(2, {.min_ranks = 4, .cooldown = {{1, 1}}});
  end(3, SIGKILL);
  check_in({0, 1, 2});
  turn_until([this] { return agents_->begun.contains(2); });
  EXPECT_TRUE(agents_->left.contains(1)) << "its first agent has nothing to do any more";
  come_up(2, "n2", 1);
  turn_until([this] { return last(2, v1::LauncherMessage::kLaunch) != nullptr; });
  const v1::Launch launch = last(2, v1::LauncherMessage::kLaunch)->launch();
  EXPECT_EQ(launch.live_members(0).number(), 4);
  start_processes(2, launch);
  await_generations(1);
  EXPECT_EQ(begun_[0].from, 4);
  EXPECT_EQ(begun_[0].to, 4);
  EXPECT_EQ(begun_[0].former, (std::vector<int>{0, 1, -1, -1}));
  for (const int number : {0, 1, 4, 5}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(outcome().hosts, 2);
}

TEST_F(JobJoinsTest, AHostDoesNotReturnBeforeItsFormerAgentHasLeft) {
  run_job(2, {.min_ranks = 4, .cooldown = {{1, 1}}});
  silent_.insert(1);
  for (const int number : {2, 3}) running_.erase(number);
  agents_->to->agent_gone(1, base::error(base::Code::kUnavailable, "killed"));
  check_in({0, 1});
  turn_until([this] { return agents_->added.size() == 1; });
  EXPECT_FALSE(agents_->begun.contains(2)) << "the host is being searched for processes of the job";
  agents_->sweeps.at(1)(CommandResult{0, "", ""});
  EXPECT_TRUE(agents_->begun.contains(2));
  runner_->stop(StopCause::kInterrupt);
  EXPECT_EQ(outcome().exit_code, 130);
}

}  // namespace
}  // namespace muster::launcherd::job_joins_test
