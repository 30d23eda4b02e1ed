// Tests the queue by examples, and by many random jobs.
#include "launcherd/queue/job_queue.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_need.h"

namespace muster::launcherd::job_queue_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SlotHost host(const std::string& name, int slots, int used = 0, bool is_drained = false) {
  return {.host = {.name = name, .slots = slots}, .slots = slots, .used = used, .is_drained = is_drained};
}

JobNeed need(int np, std::vector<std::string> hosts = {}) {
  JobNeed need;
  need.request.np = np;
  for (std::string& name : hosts) need.request.hosts.push_back({.name = std::move(name)});
  return need;
}

// Returns "aaaaaaaa" for 0.
base::JobId id(int number) {
  std::string text(8, 'a');
  for (std::size_t i = text.size(); i-- > 0; number /= 26) text[i] = static_cast<char>('a' + number % 26);
  return *base::JobId::parse(text);
}

std::vector<std::string> names(const std::vector<JobQueue::Start>& started) {
  std::vector<std::string> result;
  for (const JobQueue::Start& start : started) result.push_back(start.id.str().substr(7));
  return result;
}

TEST(JobQueue, HigherPrioritiesGoFirstThenTheEarlier) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(1));
  queue.add(id(1), 5, 1, need(1));
  queue.add(id(2), 5, 2, need(1));
  std::vector<SlotHost> hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("b", "c"));
  EXPECT_EQ(hosts[0].free(), 0);
  EXPECT_THAT(queue.start(hosts), IsEmpty());
  EXPECT_EQ(queue.size(), 1u);
}

TEST(JobQueue, StartsACopyForEachElement) {
  JobQueue queue;
  queue.add(id(0), {.number = 0, .copies = 3}, need(1));
  queue.add(id(1), 0, 1, need(1));
  std::vector<SlotHost> hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a", "a")) << "its copies go before the later job";
  EXPECT_TRUE(queue.set_copies(id(0), 2));
  queue.hold(id(0));
  EXPECT_TRUE(queue.set_copies(id(0), 1)) << "while it is held";
  queue.release(id(0));
  hosts = {host("n1", 4)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a", "b"));
  EXPECT_FALSE(queue.set_copies(id(0), 2));
  EXPECT_EQ(queue.size(), 0u);
}

TEST(JobQueue, APriorityCanChange) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(1));
  queue.add(id(1), 0, 1, need(1));
  queue.add(id(2), 0, 2, need(1));
  EXPECT_TRUE(queue.set_priority(id(2), 5));
  queue.hold(id(1));
  EXPECT_TRUE(queue.set_priority(id(1), 3)) << "while it is held";
  queue.release(id(1));
  EXPECT_FALSE(queue.set_priority(id(7), 3));
  std::vector<SlotHost> hosts = {host("n1", 3)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("c", "b", "a"));
}

TEST(JobQueue, FairUseFavoursTheGroupThatUsesLess) {
  JobQueue queue;
  queue.use_fairly();
  for (int number = 0; number < 4; ++number) {
    queue.add(id(number), {.number = static_cast<std::uint64_t>(number), .group = "ann"}, need(1));
  }
  for (int number = 4; number < 7; ++number) {
    queue.add(id(number), {.number = static_cast<std::uint64_t>(number), .group = "bob"}, need(1));
  }
  queue.add(id(7), {.priority = 1, .number = 7, .group = "ann"}, need(1));
  std::vector<SlotHost> hosts = {host("n1", 4)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("h", "e", "a", "f")) << "the priority goes first";
  queue.count_use("ann", -2);
  hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("b", "c")) << "bob uses two slots";
  queue.count_use("bob", -2);
  hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("g", "d"));
}

TEST(JobQueue, WithoutFairUseGroupsDoNotMatter) {
  JobQueue queue;
  queue.add(id(0), {.number = 0, .group = "ann"}, need(1));
  queue.add(id(1), {.number = 1, .group = "ann"}, need(1));
  queue.add(id(2), {.number = 2, .group = "bob"}, need(1));
  std::vector<SlotHost> hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a", "b"));
}

TEST(JobQueue, WhatFitsStartsWhileTheHeadWaits) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(4));
  queue.add(id(1), 0, 1, need(1));
  std::vector<SlotHost> hosts = {host("n1", 4, 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("b"));
  EXPECT_EQ(queue.reason(id(0), hosts), "needs 4 slots, 1 is free on n1");
}

TEST(JobQueue, TheHeadIsOvertakenOnlySoOften) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(4));
  std::vector<SlotHost> hosts = {host("n1", 4, 1), host("n2", 1)};
  std::uint64_t next = 1;
  int overtakes = 0;
  for (int turn = 0; turn < 100; ++turn) {
    hosts[1].used = 1;
    queue.add(id(static_cast<int>(next)), 0, next, need(1, {"n1"}));
    ++next;
    overtakes += static_cast<int>(queue.start(hosts).size());
    hosts[0].used = 1;  // the short jobs have ended, the long one has not
  }
  EXPECT_EQ(overtakes, JobQueue::kMostOvertakes);
  EXPECT_THAT(queue.reason(id(50), hosts), HasSubstr("reserved for job aaaaaaaa"));
  hosts[0].used = 0;
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a"));
}

TEST(JobQueue, SlotsThatTheHeadCannotUseAreNotKept) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(2, {"n1"}));
  std::vector<SlotHost> hosts = {host("n1", 2, 1), host("n2", 1)};
  for (int number = 1; number <= 50; ++number) {
    queue.add(id(number), 0, static_cast<std::uint64_t>(number), need(1, {"n2"}));
    EXPECT_EQ(queue.start(hosts).size(), 1u) << number;
    hosts[1].used = 0;
  }
}

TEST(JobQueue, AJobForADrainedHostKeepsNothing) {
  JobQueue queue;
  queue.add(id(0), 9, 0, need(4));
  std::vector<SlotHost> hosts = {host("n1", 2), host("n2", 2, 0, true)};
  for (int number = 1; number <= 50; ++number) {
    queue.add(id(number), 0, static_cast<std::uint64_t>(number), need(1));
    EXPECT_EQ(queue.start(hosts).size(), 1u) << number;
    hosts[0].used = 0;
  }
  EXPECT_EQ(queue.reason(id(0), hosts), "needs 4 slots, 2 are free on n1 and n2; n2 is drained");
  hosts[1].is_drained = false;
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a"));
}

TEST(JobQueue, WhatIsRemovedDoesNotStart) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(1));
  EXPECT_TRUE(queue.remove(id(0)));
  EXPECT_FALSE(queue.remove(id(0)));
  std::vector<SlotHost> hosts = {host("n1", 1)};
  EXPECT_THAT(queue.start(hosts), IsEmpty());
  EXPECT_EQ(queue.reason(id(0), hosts), "");
}

TEST(JobQueue, HeldJobsDoNotStartAndReserveNothing) {
  JobQueue queue;
  queue.add(id(0), 9, 0, need(4));
  queue.add(id(1), 9, 1, need(1));
  queue.hold(id(0));
  queue.hold(id(1));
  queue.hold(id(9));  // it is not in the queue
  EXPECT_EQ(queue.size(), 0u);
  std::vector<SlotHost> hosts = {host("n1", 4, 1)};
  EXPECT_THAT(queue.start(hosts), IsEmpty());
  EXPECT_FALSE(queue.head(hosts).has_value());
  EXPECT_EQ(queue.reason(id(0), hosts), "");
  queue.reserve_for(id(0));
  for (int number = 2; number <= 2 + 2 * JobQueue::kMostOvertakes; ++number) {
    queue.add(id(number), 0, static_cast<std::uint64_t>(number), need(1));
    EXPECT_EQ(queue.start(hosts).size(), 1u) << number;
    hosts[0].used = 1;
  }
}

TEST(JobQueue, AReleasedJobHasItsOldPlace) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(1));
  queue.add(id(1), 0, 1, need(1));
  queue.hold(id(0));
  queue.hold(id(0));
  queue.release(id(1));  // it is not held
  queue.release(id(0));
  queue.release(id(0));
  EXPECT_EQ(queue.size(), 2u);
  std::vector<SlotHost> hosts = {host("n1", 2)};
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("a", "b"));
}

TEST(JobQueue, AHeldJobCanBeRemoved) {
  JobQueue queue;
  queue.add(id(0), 0, 0, need(1));
  queue.hold(id(0));
  EXPECT_TRUE(queue.remove(id(0)));
  queue.release(id(0));
  std::vector<SlotHost> hosts = {host("n1", 2)};
  EXPECT_THAT(queue.start(hosts), IsEmpty());
}

// Random jobs arrive, start and end; hosts are drained and resumed.
class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) hosts_.push_back(host(fmt::format("n{}", i + 1), 1 + pick(4)));
  }

  void turn() {
    if (pick(3) != 0) submit();
    if (pick(3) == 0) end_one();
    if (pick(10) == 0) {
      SlotHost& any = hosts_[static_cast<std::size_t>(pick(4))];
      any.is_drained = !any.is_drained;
    }
    pass();
  }

  // Adds no more jobs and drains no host. Every waiting job must start.
  void run_dry() {
    for (SlotHost& each : hosts_) each.is_drained = false;
    for (int i = 0; i < 100'000 && (queue_.size() > 0 || !running_.empty()); ++i) {
      end_one();
      pass();
    }
    EXPECT_EQ(queue_.size(), 0u) << "starved";
    for (const SlotHost& each : hosts_) EXPECT_EQ(each.used, 0);
  }

 private:
  struct Waiting {
    int priority;
    int number;
    JobNeed need;
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void submit() {
    model::JobSpec job;
    job.placement.np = 1 + pick(8);
    if (pick(3) == 0) job.placement.hosts = {{.name = fmt::format("n{}", 1 + pick(4))}};
    job.placement.oversubscribe = pick(8) == 0;
    auto wanted = need_of(job, hosts_);
    if (!wanted.ok()) return;
    const int number = next_++;
    const int priority = pick(3);
    waiting_.push_back({priority, number, *wanted});
    queue_.add(id(number), priority, static_cast<std::uint64_t>(number), std::move(*wanted));
  }

  void end_one() {
    if (running_.empty()) return;
    const auto at = running_.begin() + pick(static_cast<int>(running_.size()));
    release_slots(*at, hosts_);
    running_.erase(at);
  }

  void pass() {
    const std::vector<SlotHost> before = hosts_;
    for (JobQueue::Start& start : queue_.start(hosts_)) {
      const auto at = std::ranges::find_if(waiting_, [&](const Waiting& each) { return id(each.number) == start.id; });
      ASSERT_NE(at, waiting_.end()) << "started twice";
      check_order(*at, before);
      EXPECT_EQ(start.placement.size, at->need.ranks());
      waiting_.erase(at);
      running_.push_back(std::move(start.placement));
    }
    check_slots(before);
  }

  // Among jobs that ask for the same, none may overtake an earlier one.
  void check_order(const Waiting& started, const std::vector<SlotHost>& before) const {
    for (const Waiting& other : waiting_) {
      const bool is_ahead = std::pair(-other.priority, other.number) < std::pair(-started.priority, started.number);
      const bool asks_the_same = other.need.ranks() == started.need.ranks() &&
                                 other.need.request.hosts == started.need.request.hosts &&
                                 other.need.request.oversubscribe == started.need.request.oversubscribe;
      EXPECT_FALSE(is_ahead && asks_the_same && fit(other.need, before)) << other.number << " " << started.number;
    }
  }

  void check_slots(const std::vector<SlotHost>& before) const {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      EXPECT_LE(hosts_[i].used, hosts_[i].slots) << hosts_[i].host.name;
      EXPECT_TRUE(!hosts_[i].is_drained || hosts_[i].used == before[i].used) << "a drained host took a job";
    }
    std::vector<SlotHost> recounted = hosts_;
    for (SlotHost& each : recounted) each.used = 0;
    for (const model::Placement& placement : running_) acquire_slots(placement, recounted);
    for (std::size_t i = 0; i < hosts_.size(); ++i) EXPECT_EQ(recounted[i].used, hosts_[i].used);
  }

  std::mt19937 random_;
  JobQueue queue_;
  std::vector<SlotHost> hosts_;
  std::vector<Waiting> waiting_;
  std::vector<model::Placement> running_;
  int next_ = 0;
};

TEST(JobQueue, RandomLivesKeepTheRules) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Life life(seed);
    for (int i = 0; i < 300; ++i) life.turn();
    life.run_dry();
  }
}

// Short jobs never stop arriving, but the large one still starts.
TEST(JobQueue, ALargeJobIsNotStarvedBySmallOnes) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    JobQueue queue;
    std::vector<SlotHost> hosts = {host("n1", 4), host("n2", 4)};
    std::vector<model::Placement> running;
    int next = 1;
    bool has_large_started = false;
    for (int turn = 0; turn < 500 && !has_large_started; ++turn) {
      if (turn == 10) queue.add(id(0), 0, 10'000'000, need(8));  // after the present jobs, before the later ones
      for (int i = 0; i < 3; ++i, ++next) {
        queue.add(id(next), 0, static_cast<std::uint64_t>(turn < 10 ? next : 10'000'000 + next), need(1));
      }
      if (!running.empty()) {
        const std::size_t at = random() % running.size();
        release_slots(running[at], hosts);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
      }
      for (JobQueue::Start& start : queue.start(hosts)) {
        has_large_started = has_large_started || start.id == id(0);
        running.push_back(std::move(start.placement));
      }
    }
    EXPECT_TRUE(has_large_started) << seed;
  }
}

TEST(JobQueue, TheHeadIsTheFirstThatWaitsForRunningJobs) {
  JobQueue queue;
  std::vector<SlotHost> hosts = {host("n1", 4, 3), host("n2", 4, 4)};
  EXPECT_FALSE(queue.head(hosts).has_value());
  queue.add(id(1), 0, 1, need(6));
  queue.add(id(2), 7, 2, need(20));
  queue.add(id(3), 5, 3, need(2));
  const auto head = queue.head(hosts);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->id, id(3)) << "job 2 would not fit on idle hosts";
  EXPECT_EQ(head->priority, 5);
  EXPECT_EQ(head->need.ranks(), 2);
}

TEST(JobQueue, NothingOvertakesAJobThatGetsSlotsBack) {
  JobQueue queue;
  std::vector<SlotHost> hosts = {host("n1", 4, 3)};
  queue.add(id(1), 5, 1, need(2));
  queue.add(id(2), 0, 2, need(1));
  queue.reserve_for(id(1));
  queue.reserve_for(id(9));  // it is not in the queue
  EXPECT_THAT(queue.start(hosts), IsEmpty());
  hosts[0].used = 2;
  EXPECT_THAT(names(queue.start(hosts)), ElementsAre("b"));
}

}  // namespace
}  // namespace muster::launcherd::job_queue_test
