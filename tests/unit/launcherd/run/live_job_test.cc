// Agents and the core are played by the test. The driver is the real one.
#include "launcherd/run/live_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_spec.h"

namespace muster::launcherd::live_job_test {
namespace {

using ::testing::ElementsAre;

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
                        .add_agent = [this](const std::string& host) -> base::Result<int> {
                          if (host == bad_host_) return base::unavailable("{}: no agent", host);
                          added_.push_back(host);
                          return next_agent_++;
                        },
                        .start =
                            [this](const Generation&, const std::vector<int>& in_order,
                                   const std::vector<NewProcess>& processes, const std::string& address) {
                              agents_in_order_ = in_order;
                              started_.insert(started_.end(), processes.begin(), processes.end());
                              address_ = address;
                              return start_status_;
                            },
                        .release_agent = [this](int agent) { released_.push_back(agent); },
                        .warn = [this](const std::string& line) { warnings_.push_back(line); },
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
    next_agent_ = static_cast<int>(agents.size());
    job_->start(placement_, agents, listed_);
  }
  void end(int number, int exit_code) {
    model::RankEnd end;
    end.rank = number;
    end.kind = model::EndKind::kExited;
    end.exit_code = exit_code;
    job_->ended(number, end);
  }
  void pass(base::Duration by) {
    const base::MonotonicTime end = clock_.now() + by;
    while (wake_ && *wake_ <= end) {
      if (*wake_ > clock_.now()) clock_.advance(*wake_ - clock_.now());
      job_->tick();
    }
    if (end > clock_.now()) clock_.advance(end - clock_.now());
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

  base::FakeClock clock_;
  model::Placement placement_;
  std::map<int, std::vector<v1::LauncherMessage>> sent_;
  std::vector<Generation> begun_;
  std::vector<int> former_;
  std::optional<FinishJob> over_;
  std::vector<std::string> warnings_;
  std::vector<ElasticHost> listed_;
  std::string bad_host_;
  std::vector<std::string> added_;
  int next_agent_ = 0;
  std::vector<int> agents_in_order_;
  std::vector<NewProcess> started_;
  std::string address_;
  base::Status start_status_ = base::ok_status();
  std::vector<int> released_;
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
  EXPECT_EQ(sent_[1].size(), 2U) << "EndRanks and GenerationOver";
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

TEST_F(LiveJobTest, TheEndsOfAGenerationAreReportedToAllHosts) {
  start("n1:2,n2:1,n3:1", {.min_ranks = 1});
  const auto reports = [&](int agent) {
    std::vector<int> generations;
    for (const v1::LauncherMessage& message : sent_[agent]) {
      if (message.has_generation_over()) generations.push_back(message.generation_over().generation());
    }
    return generations;
  };
  end(3, 1);
  EXPECT_EQ(reports(0), std::vector<int>{0});
  EXPECT_EQ(reports(1), std::vector<int>{0});
  EXPECT_EQ(reports(2), std::vector<int>()) << "no process lives there";
  job_->host_lost(1);
  EXPECT_EQ(reports(0), (std::vector<int>{0, 0})) << "the ranks of that host have failed, too";
  job_->checked_in(0);
  job_->checked_in(1);
  answer_prepare(0, 1);
  ASSERT_EQ(begun_.size(), 1U);
  end(1, 1);
  EXPECT_EQ(reports(0), (std::vector<int>{0, 0, 1}));
}

TEST_F(LiveJobTest, FailedRanksAreReportedToAllHosts) {
  start("n1:2,n2:1,n3:2", {.min_ranks = 1});
  const auto failed = [&] {
    std::vector<std::string> lines;
    for (const v1::LauncherMessage& message : sent_[1]) {
      for (const v1::EndedRank& rank : message.generation_over().failed()) {
        lines.push_back(fmt::format("{} {}", rank.rank(), rank.cause()));
      }
    }
    return lines;
  };
  end(0, 0);
  EXPECT_THAT(failed(), ElementsAre()) << "it has ended well";
  end(1, 3);
  EXPECT_THAT(failed(), ElementsAre("1 exited with 3"));
  job_->host_lost(2);
  EXPECT_THAT(failed(), ElementsAre("1 exited with 3", "3 was lost with its host n3", "4 was lost with its host n3"));
}

TEST_F(LiveJobTest, RankZeroGetsANoticeThatTheHostsChanged) {
  start("n1:1,n2:1", {.min_ranks = 1});
  job_->set_size(1, 1);
  const v1::LauncherMessage* const first = last(0, v1::LauncherMessage::kNotifyWorker);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->notify_worker().number(), 0);
  EXPECT_EQ(first->notify_worker().result(), 3);
  EXPECT_EQ(last(1, v1::LauncherMessage::kNotifyWorker), nullptr);
  const std::optional<base::MonotonicTime> repeat = wake_;
  ASSERT_TRUE(repeat);
  v1::WorkerNotified answer;
  answer.set_timestamp(first->notify_worker().timestamp());
  job_->notified(answer);  // the process has confirmed it
  EXPECT_EQ(wake_, repeat);
  answer.set_error("no such service");
  answer.set_timestamp(1);  // not the last notice
  job_->notified(answer);
  answer.set_number(77);
  job_->notified(answer);
  EXPECT_EQ(wake_, repeat);
  answer.set_number(0);
  answer.set_timestamp(first->notify_worker().timestamp());
  job_->notified(answer);
  ASSERT_TRUE(wake_);
  EXPECT_LT(*wake_, *repeat) << "a notice that failed is repeated soon";
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

TEST_F(LiveJobTest, NewProcessesOfAPlanWhoseStoreIsLostAreReplaced) {
  start("n1:1,n2:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}, {"n3", 1}});
  job_->checked_in(0);
  job_->checked_in(1);
  job_->agent_up(2);
  ASSERT_EQ(started_.size(), 1U);
  job_->put_first(2);  // ready, but n1 does not open the store
  job_->host_lost(0);
  pass(2s);
  const v1::LauncherMessage* const ended = last(2, v1::LauncherMessage::kEndRanks);
  ASSERT_NE(ended, nullptr) << "its environment has the numbers of the old plan";
  EXPECT_EQ(ended->end_ranks().ranks(0), 2);
}

TEST_F(LiveJobTest, AFailureThatLeavesTooFewSlotsDropsThePlan) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 2});
  end(2, 1);
  job_->checked_in(0);
  job_->checked_in(1);
  ASSERT_NE(last(0, v1::LauncherMessage::kPrepareGeneration), nullptr);
  end(1, 1);
  answer_prepare(0, 1);  // one that comes late
  EXPECT_TRUE(begun_.empty());
  EXPECT_FALSE(job_->is_over()) << "the job waits for slots";
  EXPECT_EQ(job_->lacks(), 1);
  EXPECT_THAT(job_->excluded_hosts(), testing::UnorderedElementsAre("n2", "n3"));
}

TEST_F(LiveJobTest, ALateStartIsExplained) {
  start("n1:1,n2:1,n3:1", {.min_ranks = 2});
  end(1, 3);
  job_->checked_in(0);
  pass(4s);
  EXPECT_TRUE(warnings_.empty());
  pass(1s);
  EXPECT_EQ(warnings_, std::vector<std::string>{"rank 1 on n2: exit code 3; rank 2 has not asked for new numbers yet, "
                                                "which happens when a collective fails"});
  pass(10s);
  EXPECT_EQ(warnings_.size(), 1U);
  end(2, 1);
  pass(5s);
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_EQ(warnings_[1],
            "rank 1 on n2: exit code 3; fewer slots are left than --min-np 2, so the job waits for "
            "others for up to 600 s (--elastic-timeout)");
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

TEST_F(LiveJobTest, AProcessJoinsOnAHostWhoseAgentIsUp) {
  start("n1:1,n2:1", {.min_ranks = 2, .max_ranks = 3});
  job_->set_hosts({{"n1", 1}, {"n2", 2}});
  EXPECT_TRUE(started_.empty()) << "the others must ask for new numbers first";
  job_->checked_in(0);
  job_->checked_in(1);
  EXPECT_TRUE(added_.empty());
  EXPECT_EQ(started_, (std::vector<NewProcess>{{.number = 2, .agent = 1, .rank = 2}}));
  EXPECT_EQ(address_, "10.0.0.1");
  answer_prepare(0, 1);
  EXPECT_TRUE(begun_.empty()) << "the new process is not ready";
  job_->put_first(2);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(former_, (std::vector<int>{0, 1, -1}));
  EXPECT_EQ(job_->members().rank_of(2), 2);
  EXPECT_TRUE(job_->members().has_joined(2));
  const v1::BeginGeneration& begin = last(1, v1::LauncherMessage::kBeginGeneration)->begin_generation();
  ASSERT_EQ(begin.members_size(), 2);
  EXPECT_EQ(begin.members(1).number(), 2);
  EXPECT_EQ(begin.members(1).local_rank(), 1);
}

TEST_F(LiveJobTest, AnAddedHostGetsAnAgentFirst) {
  start("n1:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}});  // without --max-np all slots count from now on
  job_->checked_in(0);
  EXPECT_EQ(added_, std::vector<std::string>{"n2"});
  EXPECT_TRUE(started_.empty());
  EXPECT_EQ(last(0, v1::LauncherMessage::kPrepareGeneration), nullptr) << "n2's addresses are not known";
  job_->agent_up(1);
  EXPECT_EQ(started_, (std::vector<NewProcess>{{.number = 1, .agent = 1, .rank = 1}}));
  EXPECT_EQ(agents_in_order_, (std::vector<int>{0, 1}));
  const v1::LauncherMessage* const prepare = last(0, v1::LauncherMessage::kPrepareGeneration);
  ASSERT_NE(prepare, nullptr);
  EXPECT_EQ(prepare->prepare_generation().horovod_hosts_size(), 2);
  EXPECT_EQ(prepare->prepare_generation().peers(0).owner_port(), 101U);
  answer_prepare(0, 1);
  job_->put_first(1);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().added, std::vector<std::string>{"n2"});
  EXPECT_EQ(last(1, v1::LauncherMessage::kBeginGeneration)->begin_generation().horovod_address(), "10.0.0.1");
  EXPECT_TRUE(released_.empty());
}

TEST_F(LiveJobTest, AHostReturnsAfterItsCooldown) {
  start("n1:1,n2:1", {.min_ranks = 2, .cooldown = {{1, 1}}});
  end(1, 1);
  job_->checked_in(0);
  EXPECT_TRUE(added_.empty()) << "n2 is black-listed";
  pass(1s);
  EXPECT_EQ(added_, std::vector<std::string>{"n2"}) << "its first agent leaves";
  job_->agent_up(2);
  EXPECT_EQ(started_, (std::vector<NewProcess>{{.number = 2, .agent = 2, .rank = 1}}));
  answer_prepare(0, 1);
  job_->put_first(2);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(former_, (std::vector<int>{0, -1}));
  EXPECT_EQ(last(1, v1::LauncherMessage::kBeginGeneration), nullptr);
  EXPECT_NE(last(2, v1::LauncherMessage::kBeginGeneration), nullptr);
}

TEST_F(LiveJobTest, TheJobGoesOnWithoutAHostThatDoesNotComeUp) {
  start("n1:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}});
  job_->checked_in(0);
  job_->host_lost(1);
  EXPECT_TRUE(started_.empty());
  pass(2s);  // after the driver's settle time
  answer_prepare(0, 2);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 1U);
  EXPECT_FALSE(job_->is_over());
}

TEST_F(LiveJobTest, AHostThatCannotBeAddedIsReported) {
  bad_host_ = "n2";
  start("n1:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}});
  job_->checked_in(0);
  EXPECT_EQ(warnings_, std::vector<std::string>{"n2: no agent"});
  pass(2s);
  answer_prepare(0, 2);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 1U);
}

TEST_F(LiveJobTest, ANewProcessThatEndsDoesNotEndItsNeighbours) {
  start("n1:1,n2:1", {.min_ranks = 2, .max_ranks = 3});
  job_->set_hosts({{"n1", 1}, {"n2", 2}});
  job_->checked_in(0);
  job_->checked_in(1);
  ASSERT_EQ(started_.size(), 1U);
  end(2, 1);
  EXPECT_EQ(last(1, v1::LauncherMessage::kEndRanks), nullptr);
  pass(2s);
  answer_prepare(0, 2);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_.front().plan.size(), 2U);
}

TEST_F(LiveJobTest, AnAgentThatRefusesProcessesIsReplaced) {
  start("n1:1,n2:1", {.min_ranks = 2, .max_ranks = 3});
  job_->set_hosts({{"n1", 1}, {"n2", 2}});
  job_->checked_in(0);
  job_->checked_in(1);
  ASSERT_EQ(started_.size(), 1U);
  job_->refused(1, 2);
  EXPECT_FALSE(job_->members().may_run(2));
  pass(2s);
  EXPECT_EQ(started_.back(), (NewProcess{.number = 3, .agent = 1, .rank = 2})) << "its host is not to blame";
}

TEST_F(LiveJobTest, AnAgentThatIsNotNeededIsReleased) {
  start("n1:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}, {"n3", 1}});
  job_->checked_in(0);
  EXPECT_EQ(added_, (std::vector<std::string>{"n2", "n3"}));
  job_->host_lost(2);  // n3
  job_->set_hosts({{"n1", 1}});
  pass(2s);
  answer_prepare(0, 2);
  EXPECT_EQ(begun_.size(), 1U);
  EXPECT_TRUE(released_.empty()) << "it has not come up yet";
  job_->agent_up(1);
  EXPECT_EQ(released_, std::vector<int>{1});
  EXPECT_TRUE(started_.empty());
}

TEST_F(LiveJobTest, AStopForgetsProcessesThatNoAgentHasStarted) {
  start("n1:1", {.min_ranks = 1});
  job_->set_hosts({{"n1", 1}, {"n2", 1}});
  job_->checked_in(0);
  EXPECT_TRUE(job_->members().may_run(1));
  job_->stop();
  EXPECT_FALSE(job_->members().may_run(1));
  EXPECT_TRUE(job_->members().may_run(0));
  job_->agent_up(1);
  EXPECT_TRUE(started_.empty());
}

TEST_F(LiveJobTest, FreeSlotsOfTheListReplaceALostHost) {
  listed_ = {{"n1", 1}, {"n2", 1}, {"n3", 1}};
  start("n1:1,n2:1", {.min_ranks = 1});
  EXPECT_TRUE(added_.empty()) << "the job has as many ranks as at its start";
  job_->host_lost(1);
  job_->checked_in(0);
  EXPECT_EQ(added_, std::vector<std::string>{"n3"});
}

}  // namespace
}  // namespace muster::launcherd::live_job_test
