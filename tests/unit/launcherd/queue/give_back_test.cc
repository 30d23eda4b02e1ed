// Tests which jobs give slots back and which grow, pair by pair.
#include "launcherd/queue/give_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::launcherd::give_back_test {
namespace {

using namespace std::chrono_literals;
using model::ElasticPolicy;

constexpr base::MonotonicTime kNow{1h};

base::JobId id(char letter) {
  return *base::JobId::parse(std::string(8, letter));
}

// A list of hosts of four slots each, and jobs that use them.
class GiveBackTest : public ::testing::Test {
 protected:
  GiveBackTest() {
    jobs_.reserve(8);  // job() returns references
    for (const char* name : {"n1", "n2", "n3"}) {
      hosts_.push_back({.host = {.name = name, .slots = 4}, .slots = 4});
    }
  }

  // Adds a job of priority 0 with one rank for each number, which is that of its host.
  SizedJob& job(char letter, const std::vector<int>& host_of_rank, ElasticPolicy policy = ElasticPolicy::kGiveBack) {
    std::vector<model::HostSpec> named;
    std::vector<std::size_t> places;
    for (const int number : host_of_rank) {
      const std::string name = fmt::format("n{}", number);
      if (named.empty() || named.back().name != name) named.push_back({.name = name, .slots = 4});
      places.push_back(named.size() - 1);
    }
    SizedJob job{.id = id(letter), .number = jobs_.size(), .policy = policy};
    job.placement = model::place_as_listed(named, places);
    acquire_slots(job.placement, hosts_);
    jobs_.push_back(std::move(job));
    return jobs_.back();
  }
  // Returns the changes for a waiting job, as "a:8>6", in their order. "none": it would not fit.
  std::string given(int ranks, int priority = 1, const std::vector<std::string>& on = {}) const {
    WaitingJob waiting{.id = id('w'), .priority = priority, .need = {}};
    waiting.need.request.np = ranks;
    for (const std::string& name : on) waiting.need.request.hosts.push_back({.name = name});
    const GiveBack result = give_back(waiting, jobs_, hosts_);
    std::vector<std::string> words;
    for (const SizeChange& each : result.changes) {
      words.push_back(fmt::format("{}:{}>{}", each.id.str().front(), each.from, each.to));
    }
    EXPECT_TRUE(result.is_enough || words.empty());
    return result.is_enough ? base::join(words, " ") : "none";
  }
  // Returns the jobs that may grow now, such as "ab".
  std::string growing(base::MonotonicTime quiet_since = {}) const {
    std::string letters;
    for (const base::JobId& each : growth_turns(jobs_, quiet_since, kNow).now) letters += each.str().front();
    return letters;
  }

  std::vector<SlotHost> hosts_;
  std::vector<SizedJob> jobs_;
};

TEST_F(GiveBackTest, AJobGivesWhatTheWaitingOneNeedsAndNoMore) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_EQ(given(1), "a:12>11");
  EXPECT_EQ(given(6), "a:12>6");
  EXPECT_EQ(given(11), "a:12>1");
}

TEST_F(GiveBackTest, FreeSlotsAreUsedFirst) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2});
  EXPECT_EQ(given(5), "a:8>7") << "four are free on n3";
}

TEST_F(GiveBackTest, NeverBelowTheMinimum) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}).min_ranks = 8;
  EXPECT_EQ(given(4), "a:12>8");
  EXPECT_EQ(given(5), "none") << "it would not fit, so nothing changes";
}

TEST_F(GiveBackTest, NeverBelowTheLeastHosts) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}).min_hosts = 3;
  EXPECT_EQ(given(3), "a:12>9");
  EXPECT_EQ(given(4), "none");
}

TEST_F(GiveBackTest, EqualAndHigherPrioritiesGiveNothing) {
  SizedJob& running = job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_EQ(given(4, 0), "none");
  running.priority = 5;
  EXPECT_EQ(given(4, 4), "none");
  EXPECT_EQ(given(4, 5), "none");
  EXPECT_EQ(given(4, 6), "a:12>8");
}

TEST_F(GiveBackTest, OnlyJobsWithThePolicyGive) {
  SizedJob& running = job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  for (const ElasticPolicy policy : {ElasticPolicy::kFixed, ElasticPolicy::kGrow}) {
    running.policy = policy;
    EXPECT_EQ(given(4), "none");
  }
  running.policy = ElasticPolicy::kBoth;
  EXPECT_EQ(given(4), "a:12>8");
}

TEST_F(GiveBackTest, TheLowestPriorityGivesFirst) {
  job('a', {1, 1, 1, 1}).priority = 2;
  job('b', {2, 2, 2, 2}).priority = 1;
  job('c', {3, 3, 3, 3}).priority = 3;
  EXPECT_EQ(given(3, 9), "b:4>1");
  EXPECT_EQ(given(4, 9), "b:4>1 a:4>3");
  EXPECT_EQ(given(9, 9), "b:4>1 a:4>1 c:4>1");
}

TEST_F(GiveBackTest, OfEqualPrioritiesTheNewestGivesFirst) {
  job('a', {1, 1, 1, 1});
  job('b', {2, 2, 2, 2});
  job('c', {3, 3, 3, 3}, ElasticPolicy::kFixed);
  EXPECT_EQ(given(2), "b:4>2");
  EXPECT_EQ(given(5), "b:4>1 a:4>2");
}

TEST_F(GiveBackTest, NoJobGivesInVain) {
  job('a', {1, 1, 1, 1}).priority = 2;
  job('b', {2, 2, 2, 2}).priority = 1;
  job('c', {3, 3, 3, 3}, ElasticPolicy::kFixed);
  EXPECT_EQ(given(2, 9, {"n1"}), "a:4>2") << "the slots of b do not help";
  EXPECT_EQ(given(2, 9, {"n3"}), "none");
}

TEST_F(GiveBackTest, TheFirstHostsOfAJobStay) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}).min_ranks = 6;
  EXPECT_EQ(given(2, 1, {"n3"}), "a:12>10");
  EXPECT_EQ(given(2, 1, {"n2"}), "a:12>6");
  EXPECT_EQ(given(2, 1, {"n1"}), "none");
}

TEST_F(GiveBackTest, HostsThatAcceptNoJobsDoNotHelp) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  hosts_[2].is_drained = true;
  EXPECT_EQ(given(2), "a:12>6") << "the four slots of n3 come back, but n3 is drained";
}

TEST_F(GiveBackTest, SlotsThatAreComingBackCount) {
  SizedJob& first = job('a', {1, 1, 1, 1, 2, 2, 2, 2});
  job('b', {3, 3, 3, 3});
  first.changes_to = 5;
  EXPECT_EQ(given(3), "") << "it fits soon";
  EXPECT_EQ(given(4), "b:4>3") << "a job that changes already gives no more";
  EXPECT_EQ(given(7), "none");
  first.changes_to = 0;
  EXPECT_EQ(given(8), "") << "the whole job ends";
}

TEST_F(GiveBackTest, SlotsOfAFixedJobThatEndsCountToo) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, ElasticPolicy::kFixed).changes_to = 0;
  EXPECT_EQ(given(12), "");
}

TEST_F(GiveBackTest, AJobThatGrowsNowGivesNothing) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}).changes_to = 14;
  EXPECT_EQ(given(4), "none");
}

TEST_F(GiveBackTest, AJobWithoutRanksThatRunGivesNothing) {
  job('a', {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}).waits_for_hosts = true;
  EXPECT_EQ(given(4), "none");
}

TEST_F(GiveBackTest, ARankIsGivenOnlyOnce) {
  job('a', {1}).min_ranks = 4;
  job('b', {1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_EQ(given(4), "b:11>7") << "a job below its minimum gives nothing";
}

TEST_F(GiveBackTest, JobsGrowInTheOrderOfTheirPriority) {
  job('a', {1}, ElasticPolicy::kGrow);
  job('b', {2}, ElasticPolicy::kBoth).priority = 3;
  job('c', {3}, ElasticPolicy::kGrow);
  job('d', {3}, ElasticPolicy::kGiveBack);
  job('e', {3}, ElasticPolicy::kFixed);
  EXPECT_EQ(growing(), "bac");
}

TEST_F(GiveBackTest, NoJobGrowsAboveItsMaximum) {
  SizedJob& full = job('a', {1, 1}, ElasticPolicy::kGrow);
  full.max_ranks = 2;
  EXPECT_EQ(growing(), "");
  full.max_ranks = 3;
  EXPECT_EQ(growing(), "a");
}

TEST_F(GiveBackTest, GrowthWaitsUntilAllIsQuiet) {
  SizedJob& changed = job('a', {1}, ElasticPolicy::kBoth);
  EXPECT_EQ(growing(kNow - kQuietBeforeGrowth), "a");
  EXPECT_EQ(growing(kNow - kQuietBeforeGrowth + 1s), "") << "a job has just waited";
  changed.changed_at = kNow - 2s;
  EXPECT_EQ(growing(), "") << "it has just changed";
  EXPECT_EQ(growth_turns(jobs_, {}, kNow).later, kNow - 2s + kQuietBeforeGrowth);
  EXPECT_EQ(growth_turns(jobs_, kNow, kNow).later, kNow + kQuietBeforeGrowth);
}

TEST_F(GiveBackTest, TheEarliestJobDecidesWhenToAskAgain) {
  job('a', {1}, ElasticPolicy::kGrow).changed_at = kNow - 1s;
  job('b', {2}, ElasticPolicy::kGrow).changed_at = kNow - 3s;
  job('c', {3}, ElasticPolicy::kGrow);
  EXPECT_EQ(growing(), "c");
  EXPECT_EQ(growth_turns(jobs_, {}, kNow).later, kNow - 3s + kQuietBeforeGrowth);
}

TEST_F(GiveBackTest, NoJobGrowsWhileAnotherChanges) {
  job('a', {1}, ElasticPolicy::kGrow);
  SizedJob& other = job('b', {2}, ElasticPolicy::kFixed);
  other.changes_to = 3;
  EXPECT_EQ(growing(), "");
  EXPECT_FALSE(growth_turns(jobs_, {}, kNow).later.has_value()) << "the end of the change asks again";
  other.changes_to.reset();
  other.waits_for_hosts = true;
  EXPECT_EQ(growing(), "") << "it goes first";
}

}  // namespace
}  // namespace muster::launcherd::give_back_test
