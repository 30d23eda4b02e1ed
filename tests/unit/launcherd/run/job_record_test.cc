#include "launcherd/run/job_record.h"

#include <gtest/gtest.h>

#include "model/exit_code.h"

namespace muster::launcherd::job_record_test {
namespace {

class Silent final : public JobObserver {
 public:
  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override { ++running; }
  void on_note(const std::string&) override {}
  void on_warning(const std::string&) override {}
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome&) override { ++finished; }
  void on_event(const model::JobEvent&) override { ++events; }
  int running = 0;
  int finished = 0;
  int events = 0;
};

class JobRecordTest : public ::testing::Test {
 protected:
  static model::Placement four_ranks() {
    auto placement = model::place({.hosts = *model::parse_host_list("n1:2,n2:2", "-H")});
    EXPECT_TRUE(placement.ok());
    return std::move(*placement);
  }
  v1::Job all() const { return record_.job({}); }
  static model::RankEnd ended(int rank, int exit_code) {
    model::RankEnd end;
    end.rank = rank;
    end.host = "n1";
    end.exit_code = exit_code;
    return end;
  }

  base::SystemClock clock_;
  Silent next_;
  JobRecord record_{"abcdefgh", {"train", "a b"}, four_ranks(), clock_, &next_};
};

TEST_F(JobRecordTest, HasANameForPeople) {
  EXPECT_EQ(all().name(), "");
  record_.set_name("night\xff");
  EXPECT_EQ(all().name(), "night\xef\xbf\xbd");
}

TEST_F(JobRecordTest, SaysWhetherTheJobMayStartAgain) {
  JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.root = 0;
  outcome.ends = {ended(0, 3), ended(1, 0)};
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, true);
  outcome.ends[1].exit_code = model::kNeverAgain;
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, false) << "another rank asked";
  outcome.ends[1].exit_code = 0;
  outcome.cause = StopCause::kTerminate;
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, std::nullopt) << "a user ended it";
  outcome = {};
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, std::nullopt);
  outcome.exit_code = 125;
  outcome.cause = StopCause::kHostFailed;
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, std::nullopt) << "it did not start";
  outcome.ends = {ended(0, 0)};
  EXPECT_EQ(ended_event("abcdefgh", outcome).is_retryable, true) << "a host was lost";
}

TEST_F(JobRecordTest, BeginsWithEveryRankWaiting) {
  const v1::Job job = all();
  EXPECT_EQ(job.id(), "abcdefgh");
  EXPECT_EQ(job.state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(job.size(), 4);
  ASSERT_EQ(job.hosts_size(), 2);
  EXPECT_EQ(job.hosts(1).ranks(), 2);
  ASSERT_EQ(job.ranks_size(), 4);
  EXPECT_EQ(job.ranks(3).host(), "n2");
  EXPECT_EQ(job.ranks(3).state(), v1::RANK_STATE_WAITING);
  EXPECT_EQ(job.last_event(), 1u);
}

TEST_F(JobRecordTest, FollowsTheEvents) {
  record_.on_event(model::HostUp{"n1", "dial", "cgroup"});
  record_.on_event(model::RankUp{1, 42});
  record_.on_running();
  EXPECT_EQ(all().state(), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE(all().hosts(0).up());
  EXPECT_EQ(all().ranks(1).pid(), 42);
  record_.on_event(model::HostSuspect{"n1", true});
  EXPECT_TRUE(all().hosts(0).suspect());
  record_.on_event(ended(1, 3));
  EXPECT_EQ(all().ranks(1).state(), v1::RANK_STATE_ENDED);
  EXPECT_EQ(all().ranks(1).end().exit_code(), 3);
  record_.on_event(model::JobStopping{"a rank ended"});
  EXPECT_EQ(all().state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(all().reason(), "a rank ended");
  EXPECT_EQ(next_.events, 5);
  EXPECT_EQ(next_.running, 1);
}

TEST_F(JobRecordTest, ARestartBeginsAnew) {
  record_.on_event(model::RankUp{1, 42});
  record_.on_event(ended(1, 3));
  record_.on_event(model::JobRestarting{1, 1, "exit code 3"});
  EXPECT_EQ(all().state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(all().attempt(), 1);
  EXPECT_EQ(all().ranks(1).state(), v1::RANK_STATE_WAITING);
  EXPECT_EQ(all().ranks(1).pid(), 0);
  EXPECT_FALSE(all().ranks(1).has_end());
}

TEST_F(JobRecordTest, ProcessesThatStayInAGenerationKeepTheirFacts) {
  for (const int rank : {0, 1, 2, 3}) record_.on_event(model::RankUp{rank, 40 + rank});
  record_.on_event(ended(1, 3));
  const auto placement = model::place({.hosts = *model::parse_host_list("n2:2,n3:1", "-H")});
  record_.on_event(model::GenerationBegan{.number = 1,
                                          .from = 4,
                                          .to = 3,
                                          .placement = *placement,
                                          .former = {2, 3, -1},
                                          .failed = {{.name = "n1", .reason = "killed"}}});
  ASSERT_EQ(all().ranks_size(), 3);
  EXPECT_EQ(all().size(), 3);
  EXPECT_EQ(all().attempt(), 1);
  ASSERT_EQ(all().failed_hosts_size(), 1);
  EXPECT_EQ(all().failed_hosts(0).name(), "n1");
  EXPECT_EQ(all().ranks(0).pid(), 42);
  EXPECT_EQ(all().ranks(0).host(), "n2");
  EXPECT_EQ(all().ranks(1).state(), v1::RANK_STATE_RUNNING);
  EXPECT_EQ(all().ranks(2).state(), v1::RANK_STATE_WAITING);
  EXPECT_EQ(all().ranks(2).host(), "n3");
  ASSERT_EQ(all().hosts_size(), 3);
  EXPECT_EQ(all().hosts(0).ranks(), 0);
  EXPECT_EQ(all().hosts(2).ranks(), 1);
}

TEST_F(JobRecordTest, AFirstCollectiveIsOfItsGeneration) {
  const auto placement = model::place({.hosts = *model::parse_host_list("n2:2", "-H")});
  const model::GenerationBegan began{.number = 1, .from = 4, .to = 2, .placement = *placement, .former = {2, 3}};
  record_.on_event(began);
  EXPECT_FALSE(all().has_first_collective_ms());
  record_.on_event(model::FirstCollectiveEnded{.generation = 1, .elapsed = std::chrono::milliseconds(130)});
  EXPECT_EQ(all().first_collective_ms(), 130);
  record_.on_event(began);
  EXPECT_FALSE(all().has_first_collective_ms());
  record_.on_event(model::FirstCollectiveEnded{.generation = 1, .elapsed = std::chrono::milliseconds(140)});
  record_.on_event(model::JobRestarting{2, 1, "exit code 3"});
  EXPECT_FALSE(all().has_first_collective_ms());
}

TEST_F(JobRecordTest, IgnoresEventsOfUnknownHostsAndRanks) {
  record_.on_event(model::RankUp{4, 42});
  record_.on_event(model::RankUp{-1, 42});
  record_.on_event(model::HostUp{"n9", "dial", ""});
  const v1::Job job = all();
  for (const v1::RankStatus& rank : job.ranks()) EXPECT_EQ(rank.pid(), 0);
}

TEST_F(JobRecordTest, RanksComeByPages) {
  v1::GetJobRequest request;
  request.set_first_rank(1);
  request.set_max_ranks(2);
  const v1::Job page = record_.job(request);
  ASSERT_EQ(page.ranks_size(), 2);
  EXPECT_EQ(page.ranks(0).rank(), 1);
  request.set_max_ranks(-1);
  EXPECT_EQ(record_.job(request).ranks_size(), 0);
  request.set_first_rank(4);
  request.set_max_ranks(0);
  EXPECT_EQ(record_.job(request).ranks_size(), 0);
  request.set_first_rank(-7);
  EXPECT_EQ(record_.job(request).ranks_size(), 4);
}

TEST_F(JobRecordTest, AWatcherSeesEveryEventOnceAndInOrder) {
  record_.on_event(model::RankUp{0, 1});
  std::vector<std::uint64_t> seen;
  int ends = 0;
  const auto watcher = record_.watch(
      2, [&](const v1::Event& event) { seen.push_back(event.sequence()); }, [&] { ++ends; });
  ASSERT_TRUE(watcher.ok());
  record_.on_event(model::RankUp{1, 2});
  const auto other = record_.watch(
      0, [&](const v1::Event&) {}, [&] { ++ends; });
  ASSERT_TRUE(other.ok());
  record_.unwatch(*other);
  record_.on_finished({});
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(next_.finished, 1);
  EXPECT_EQ(all().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(JobRecordTest, HowItEnded) {
  JobOutcome outcome;
  outcome.exit_code = 143;
  outcome.cause = StopCause::kTerminate;
  record_.on_finished(outcome);
  EXPECT_EQ(all().state(), v1::JOB_STATE_KILLED);
  outcome.cause = StopCause::kPolicy;
  record_.on_finished(outcome);
  EXPECT_EQ(all().state(), v1::JOB_STATE_FAILED);
}

TEST_F(JobRecordTest, OldEventsAreNotKeptForEver) {
  for (std::size_t i = 0; i < JobRecord::kMaxEvents; ++i) record_.on_event(model::HostSuspect{"n1", i % 2 == 0});
  const auto refused = record_.watch(
      1, [](const v1::Event&) {}, [] {});
  EXPECT_EQ(refused.status().code(), base::Code::kOutOfRange);
  EXPECT_TRUE(record_
                  .watch(
                      2, [](const v1::Event&) {}, [] {})
                  .ok());
}

}  // namespace
}  // namespace muster::launcherd::job_record_test
