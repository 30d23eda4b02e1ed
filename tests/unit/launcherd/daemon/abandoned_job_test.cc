#include "launcherd/daemon/abandoned_job.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::abandoned_job_test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PlayedAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost>, OutputSink*, AgentListener* to) override {
    listener = to;
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override { sent[agent].push_back(std::move(message)); }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int agent) override { left.push_back(agent); }
  void drop(int) override {}
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override {
    sweeps[agent] = std::move(done);
  }

  AgentListener* listener = nullptr;
  std::map<int, std::vector<v1::LauncherMessage>> sent;
  std::map<int, std::function<void(base::Result<CommandResult>)>> sweeps;
  std::vector<int> left;
};

class AbandonedJobTest : public testing::Test {
 protected:
  void start(int hosts, std::chrono::milliseconds patience = 60s) {
    job_ = std::make_unique<AbandonedJob>(loop_, AbandonedJobOptions{.kill_grace = 3s, .patience = patience}, agents_,
                                          [this](const std::vector<std::string>& unclean) {
                                            unclean_ = unclean;
                                            is_done_ = true;
                                            loop_.stop();
                                          });
    std::vector<AgentHost> list;
    for (int i = 0; i < hosts; ++i) list.push_back({.target = {.name = "n" + std::to_string(i + 1)}});
    ASSERT_TRUE(job_->start(list).ok());
  }
  // Runs what is due now.
  void run(base::Duration limit = 50ms) {
    const base::Timer end = loop_.after(limit, [this] { loop_.stop(); });
    loop_.run();
  }
  void up(int agent, std::vector<v1::AgentMessage> history = {}, bool has_launched = true) {
    AgentUp facts;
    facts.history = std::move(history);
    facts.has_launched = has_launched;
    agents_->listener->agent_up(agent, std::move(facts));
  }
  static v1::AgentMessage empty() {
    v1::AgentMessage message;
    message.mutable_host_empty();
    return message;
  }

  base::Loop loop_;
  std::shared_ptr<PlayedAgents> agents_ = std::make_shared<PlayedAgents>();
  std::unique_ptr<AbandonedJob> job_;
  std::vector<std::string> unclean_;
  bool is_done_ = false;
};

TEST_F(AbandonedJobTest, EndsTheRanksOfAgentsAndWaitsForTheirEnd) {
  start(2);
  up(0);
  ASSERT_EQ(agents_->sent[0].size(), 1U);
  EXPECT_EQ(agents_->sent[0][0].stop_ranks().grace_ms(), 3000);
  up(1);
  agents_->listener->agent_message(0, empty());
  run();
  EXPECT_FALSE(is_done_);
  EXPECT_THAT(agents_->left, ElementsAre(0));
  agents_->listener->agent_message(1, empty());
  run();
  EXPECT_TRUE(is_done_);
  EXPECT_THAT(unclean_, IsEmpty());
}

TEST_F(AbandonedJobTest, LeavesAgentsWithoutRanksAtOnce) {
  start(2);
  up(0, {empty()});
  up(1, {}, false);
  EXPECT_THAT(agents_->left, ElementsAre(0, 1));
  EXPECT_THAT(agents_->sent, IsEmpty());
  run();
  EXPECT_TRUE(is_done_);
}

TEST_F(AbandonedJobTest, SearchesHostsWithoutAgent) {
  start(3);
  agents_->listener->agent_gone(0, base::unavailable("gone"));
  agents_->listener->agent_gone(0, base::unavailable("gone, again"));
  agents_->listener->agent_failed(1, "n2: cannot be reached");
  up(2);
  agents_->listener->agent_unreadable(2);
  ASSERT_EQ(agents_->sweeps.size(), 2U);
  agents_->sweeps[0](CommandResult());
  run();
  EXPECT_FALSE(is_done_);
  agents_->sweeps[1](base::unavailable("no route"));
  run();
  EXPECT_TRUE(is_done_);
  EXPECT_THAT(unclean_, ElementsAre(HasSubstr("n3: its agent was sent the order"), HasSubstr("no route")));
}

TEST_F(AbandonedJobTest, DoesNotWaitForeverForASilentHost) {
  start(2, 20ms);
  up(0, {empty()});
  run(2s);
  EXPECT_TRUE(is_done_);
  EXPECT_THAT(unclean_, ElementsAre(HasSubstr("n2: not reachable")));
}

TEST_F(AbandonedJobTest, ASecondStopKillsAtOnceAndStillWaits) {
  start(3);
  up(0);
  up(1, {empty()});
  job_->stop_at_once();
  job_->stop_at_once();
  ASSERT_EQ(agents_->sent[0].size(), 2U);
  EXPECT_EQ(agents_->sent[0][1].stop_ranks().grace_ms(), 0);
  EXPECT_TRUE(agents_->sent[1].empty());
  up(2);
  EXPECT_EQ(agents_->sent[2].at(0).stop_ranks().grace_ms(), 0);
  run();
  EXPECT_FALSE(is_done_) << "processes may still run";
  for (const int agent : {0, 2}) agents_->listener->agent_message(agent, empty());
  run();
  EXPECT_TRUE(is_done_);
  EXPECT_THAT(unclean_, IsEmpty());
}

TEST_F(AbandonedJobTest, WithoutHostsNothingIsLeft) {
  start(0);
  run();
  EXPECT_TRUE(is_done_);
}

}  // namespace
}  // namespace muster::launcherd::abandoned_job_test
