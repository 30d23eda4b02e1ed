// Agents and the core are played by the test. The driver is the real one.
#include "launcherd/run/live_job.h"

#include <gtest/gtest.h>

#include "model/host_spec.h"

namespace muster::launcherd::live_job_test {
namespace {

using namespace std::chrono_literals;

class LiveJobTest : public ::testing::Test {
 protected:
  void start(const std::string& hosts, model::ElasticSpec spec = {}) {
    model::PlacementRequest request;
    request.hosts = *model::parse_host_list(hosts, "-H");
    placement_ = *model::place(request);
    std::vector<int> agents;
    for (std::size_t i = 0; i < placement_.hosts.size(); ++i) agents.push_back(static_cast<int>(i));
    job_ = std::make_unique<LiveJob>(
        spec, clock_, 3s,
        LiveJob::Events{.send = [this](int agent, v1::LauncherMessage message) { sent_[agent].push_back(message); },
                        .address_of_first =
                            [](const std::vector<int>& in_order) {
                              return base::Result<std::string>("10.0.0." + std::to_string(in_order.front() + 1));
                            },
                        .peer_of =
                            [](int agent) {
                              v1::JobPeer peer;
                              peer.set_owner_port(static_cast<unsigned>(100 + agent));
                              return peer;
                            },
                        .began =
                            [this](const Generation& generation, std::vector<int> former) {
                              begun_.push_back(generation);
                              former_ = std::move(former);
                            },
                        .over = [this](const FinishJob& end) { over_ = end; },
                        .lose_host =
                            [this](int agent, const std::string& why) {
                              warnings_.push_back(why);
                              job_->host_lost(agent);
                            },
                        .wake = [this](std::optional<base::MonotonicTime> at) { wake_ = at; }});
    job_->start(placement_, agents);
  }
  void end(int number, int exit_code) {
    model::RankEnd end;
    end.rank = number;
    end.kind = model::EndKind::kExited;
    end.exit_code = exit_code;
    job_->ended(number, end);
  }
  // The ends of processes that the job has ordered.
  void carry_out_ends() {
    for (auto& [agent, messages] : sent_) {
      for (const v1::LauncherMessage& message : std::vector<v1::LauncherMessage>(messages)) {
        if (!message.has_end_ranks()) continue;
        for (const int number : message.end_ranks().ranks()) {
          if (job_->members().may_run(number)) end(number, 143);
        }
      }
    }
  }
  const v1::LauncherMessage* last(int agent, v1::LauncherMessage::BodyCase body) {
    const v1::LauncherMessage* found = nullptr;
    for (const v1::LauncherMessage& message : sent_[agent]) {
      if (message.body_case() == body) found = &message;
    }
    return found;
  }
  void answer_prepare(int agent, int generation, int port = 4000) {
    v1::GenerationPrepared answer;
    answer.set_generation(generation);
    answer.set_horovod_port(port);
    job_->prepared(agent, answer);
  }

  base::SystemClock clock_;
  model::Placement placement_;
  std::map<int, std::vector<v1::LauncherMessage>> sent_;
  std::vector<Generation> begun_;
  std::vector<int> former_;
  std::optional<FinishJob> over_;
  std::vector<std::string> warnings_;
  std::optional<base::MonotonicTime> wake_;
  std::unique_ptr<LiveJob> job_;
};

TEST_F(LiveJobTest, StartsWithoutMessages) {
  start("n1:2,n2:2", {.min_ranks = 2});
  EXPECT_TRUE(sent_.empty());
  EXPECT_TRUE(begun_.empty());
  EXPECT_FALSE(job_->is_over());
  EXPECT_EQ(job_->members().rank_of(3), 3);
}

TEST_F(LiveJobTest, SurvivorsOfAFailedRankGetNewNumbers) {
  start("n1:2,n2:2", {.min_ranks = 2});
  end(3, 1);
  const v1::LauncherMessage* const ended = last(1, v1::LauncherMessage::kEndRanks);
  ASSERT_NE(ended, nullptr) << "its host will be black-listed";
  EXPECT_EQ(ended->end_ranks().ranks(0), 2);
  EXPECT_EQ(ended->end_ranks().grace_ms(), 3000);
  job_->checked_in(0);
  job_->checked_in(1);
  EXPECT_TRUE(begun_.empty()) << "rank 2 has neither asked nor ended";
  carry_out_ends();
  EXPECT_EQ(sent_[1].size(), 1U);
  EXPECT_FALSE(job_->members().may_run(2));
  const v1::LauncherMessage* const prepare = last(0, v1::LauncherMessage::kPrepareGeneration);
  ASSERT_NE(prepare, nullptr);
  EXPECT_EQ(prepare->prepare_generation().horovod_hosts_size(), 1);
  EXPECT_TRUE(begun_.empty()) << "the store is not open";
  answer_prepare(0, prepare->prepare_generation().generation());
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 2U);
  EXPECT_EQ(former_, (std::vector<int>{0, 1}));
  const v1::BeginGeneration& begin = last(0, v1::LauncherMessage::kBeginGeneration)->begin_generation();
  EXPECT_EQ(begin.horovod_address(), "");
  ASSERT_EQ(begin.members_size(), 2);
  EXPECT_EQ(begin.members(1).number(), 1);
  EXPECT_EQ(begin.members(1).rank(), 1);
  EXPECT_EQ(begin.members(1).size(), 2);
  EXPECT_EQ(last(1, v1::LauncherMessage::kBeginGeneration), nullptr) << "no process lives there";
}

TEST_F(LiveJobTest, TheStoreMovesIfItsHostIsLost) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 1});
  job_->host_lost(0);
  EXPECT_NE(last(1, v1::LauncherMessage::kStoreLost), nullptr);
  EXPECT_EQ(last(0, v1::LauncherMessage::kStoreLost), nullptr);
  job_->checked_in(1);
  job_->checked_in(2);
  const v1::LauncherMessage* const prepare = last(1, v1::LauncherMessage::kPrepareGeneration);
  ASSERT_NE(prepare, nullptr);
  ASSERT_EQ(prepare->prepare_generation().peers_size(), 1);
  EXPECT_EQ(prepare->prepare_generation().peers(0).owner_port(), 102U);
  answer_prepare(2, 1);  // by an agent that was not asked
  EXPECT_TRUE(begun_.empty());
  answer_prepare(1, 1, 4001);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(former_, (std::vector<int>{1, 2}));
  EXPECT_EQ(job_->members().rank_of(1), 0);
  const v1::BeginGeneration& begin = last(2, v1::LauncherMessage::kBeginGeneration)->begin_generation();
  EXPECT_EQ(begin.horovod_address(), "10.0.0.2");
  EXPECT_EQ(begin.horovod_port(), 4001);
  EXPECT_EQ(begin.peers(0).owner_port(), 101U);
}

TEST_F(LiveJobTest, TwoFailuresAtOnceAreOneGeneration) {
  start("n1:1,n2:1,n3:1,n4:1", {.min_ranks = 1});
  end(1, 1);
  job_->host_lost(2);
  job_->checked_in(0);
  job_->checked_in(3);
  answer_prepare(0, 1);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 2U);
  EXPECT_EQ(former_, (std::vector<int>{0, 3}));
}

TEST_F(LiveJobTest, AFailureBeforeTheGenerationBeginsChangesThePlan) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 1});
  end(2, 1);
  job_->checked_in(0);
  job_->checked_in(1);
  ASSERT_NE(last(0, v1::LauncherMessage::kPrepareGeneration), nullptr);
  // The store is being opened when its host is lost.
  job_->host_lost(0);
  answer_prepare(0, 1);
  EXPECT_FALSE(job_->members().may_run(0));
  ASSERT_NE(last(1, v1::LauncherMessage::kPrepareGeneration), nullptr) << "rank 1 has asked already";
  answer_prepare(1, last(1, v1::LauncherMessage::kPrepareGeneration)->prepare_generation().generation());
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(former_, std::vector<int>{1});
}

TEST_F(LiveJobTest, AHostThatCannotOpenTheStoreLeavesTheJob) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 1});
  end(2, 1);
  job_->checked_in(0);
  job_->checked_in(1);
  v1::GenerationPrepared answer;
  answer.set_generation(1);
  answer.set_error("no descriptors");
  job_->prepared(0, answer);
  EXPECT_EQ(warnings_, std::vector<std::string>{"no descriptors"});
  EXPECT_NE(last(0, v1::LauncherMessage::kStopRanks), nullptr);
  ASSERT_NE(last(1, v1::LauncherMessage::kPrepareGeneration), nullptr);
}

TEST_F(LiveJobTest, TheJobEndsWhenAProcessHasEndedWellAndNoneFailed) {
  start("n1:2", {.min_ranks = 1});
  end(0, 0);
  EXPECT_FALSE(over_.has_value());
  end(1, 0);
  ASSERT_TRUE(over_.has_value());
  EXPECT_EQ(over_->end, ElasticEnd::kSucceeded);
  EXPECT_TRUE(job_->is_over());
}

TEST_F(LiveJobTest, TheJobEndsWhenAllFail) {
  start("n1:1,n2:1", {.min_ranks = 1});
  end(0, 3);
  end(1, 3);
  ASSERT_TRUE(over_.has_value());
  EXPECT_EQ(over_->end, ElasticEnd::kAllFailed);
}

// Otherwise the driver would take the job as done.
TEST_F(LiveJobTest, AProcessThatEndsWellAfterAStopHasNotDoneItsWork) {
  start("n1:1,n2:2", {.min_ranks = 1});
  end(1, 3);
  ASSERT_NE(last(1, v1::LauncherMessage::kEndRanks), nullptr);
  end(2, 0);
  job_->checked_in(0);
  EXPECT_FALSE(over_.has_value());
  answer_prepare(0, 1);
  EXPECT_EQ(begun_.size(), 1U);
}

// Its agent has ended it for a reason of its own, such as the end of the warden.
TEST_F(LiveJobTest, AProcessThatItsAgentHasStoppedCountsAsFailed) {
  start("n1:1,n2:1", {.min_ranks = 1});
  model::RankEnd end;
  end.kind = model::EndKind::kStopped;
  end.signal = 9;
  job_->ended(1, end);
  job_->checked_in(0);
  answer_prepare(0, 1);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 1U);
}

TEST_F(LiveJobTest, TheResetLimitEndsTheJob) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 1, .reset_limit = 0});
  end(2, 1);
  job_->checked_in(0);
  job_->checked_in(1);
  ASSERT_TRUE(over_.has_value());
  EXPECT_EQ(over_->end, ElasticEnd::kResetLimit);
}

TEST_F(LiveJobTest, NothingFollowsAStop) {
  start("n1:1,n2:1", {.min_ranks = 1});
  job_->stop();
  end(0, 1);
  job_->checked_in(1);
  job_->host_lost(1);
  EXPECT_FALSE(over_.has_value());
  EXPECT_TRUE(begun_.empty());
  EXPECT_EQ(last(1, v1::LauncherMessage::kPrepareGeneration), nullptr);
}

TEST_F(LiveJobTest, IgnoresUnknownProcesses) {
  start("n1:1,n2:1", {.min_ranks = 1});
  job_->checked_in(7);
  job_->checked_in(-1);
  job_->put_first(7);
  end(7, 1);
  answer_prepare(0, 1);
  EXPECT_TRUE(sent_.empty());
  EXPECT_FALSE(over_.has_value());
}

}  // namespace
}  // namespace muster::launcherd::live_job_test
