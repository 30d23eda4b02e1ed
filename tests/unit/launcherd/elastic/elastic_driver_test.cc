// The driver of an elastic job against scripted workers. Each action is one line of text.
#include "launcherd/elastic/elastic_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/elastic/elastic_soak.h"

namespace muster::launcherd::elastic_driver_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string text(const BeginGeneration& begin) {
  std::string text = fmt::format("begin {}:", begin.generation.number);
  for (const PlannedSlot& each : begin.generation.plan) text += " " + format_slot(each.slot);
  text += "; start";
  for (const PlannedSlot& each : begin.to_start) text += fmt::format(" {}={}", format_slot(each.slot), each.plan.rank);
  return text;
}
std::string text(const ReleaseAnswers& release) {
  std::string text = fmt::format("release {}:", release.generation);
  for (const SlotAnswer& each : release.answers) {
    text += fmt::format(" {}={}", format_slot(each.slot), each.plan ? each.plan->rank : -1);
  }
  return text;
}
std::string text(const NotifyWorker& notice) {
  return "notify " + format_slot(notice.slot);
}
std::string text(const StopSlots& stop) {
  std::string text = "stop";
  for (const ElasticSlot& slot : stop.slots) text += " " + format_slot(slot);
  return text;
}
std::string text(const FinishJob& finish) {
  return fmt::format("finish: {}", name_of(finish.end));
}

const ElasticSlot kA0{"a", 0};
const ElasticSlot kA1{"a", 1};
const ElasticSlot kB0{"b", 0};
const ElasticSlot kB1{"b", 1};
const ElasticSlot kC0{"c", 0};
const ElasticSlot kD0{"d", 0};

class ElasticDriverTest : public ::testing::Test {
 protected:
  void make(ElasticLimits limits) {
    driver_ = std::make_unique<ElasticDriver>(limits, time(), [] { return 0.0; });
  }
  ElasticTime time() const { return {clock_.now(), clock_.wall()}; }
  void hosts(const std::vector<ElasticHost>& hosts) { driver_->set_hosts(hosts, time()); }
  void ask(const ElasticSlot& slot) { driver_->on_rank_and_size(slot, time()); }
  void exit(const ElasticSlot& slot, int code) { driver_->on_exit(slot, {.exit_code = code}, time()); }
  void put(int rank) { driver_->on_first_put(driver_->generation().number, rank, time()); }
  // Moves the clock to each deadline on the way, as an owner does.
  void pass(base::Duration by) {
    const base::MonotonicTime end = clock_.now() + by;
    while (driver_->deadline() && *driver_->deadline() <= end) {
      if (*driver_->deadline() > clock_.now()) clock_.advance(*driver_->deadline() - clock_.now());
      driver_->tick(time());
    }
    clock_.advance(end - clock_.now());
  }
  std::vector<std::string> actions() {
    std::vector<std::string> lines;
    for (const ElasticAction& each : driver_->take_actions()) {
      lines.push_back(std::visit([](const auto& action) { return text(action); }, each));
      if (const auto* const notice = std::get_if<NotifyWorker>(&each)) timestamps_.push_back(notice->timestamp);
      if (const auto* const finish = std::get_if<FinishJob>(&each)) finish_ = *finish;
    }
    return lines;
  }
  // A running job on these hosts.
  void run(const std::vector<ElasticHost>& list, ElasticLimits limits = {}) {
    make(limits);
    hosts(list);
    const int size = static_cast<int>(driver_->generation().plan.size());
    for (int rank = 0; rank < size; ++rank) put(rank);
    (void)actions();
    ASSERT_EQ(driver_->phase(), ElasticPhase::kRunning);
  }

  base::FakeClock clock_;
  std::unique_ptr<ElasticDriver> driver_;
  std::vector<std::int64_t> timestamps_;
  FinishJob finish_;
};

TEST_F(ElasticDriverTest, StartsWhenThereAreEnoughSlots) {
  make({.np = 3, .min_np = 1});
  hosts({{"a", 2}});
  EXPECT_THAT(actions(), IsEmpty());
  hosts({{"a", 2}, {"b", 2}});
  EXPECT_THAT(actions(), ElementsAre("begin 0: a[0] a[1] b[0] b[1]; start a[0]=0 a[1]=1 b[0]=2 b[1]=3"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kStart);
  EXPECT_THAT(driver_->generation().added, ElementsAre("a", "b"));
  EXPECT_EQ(driver_->missing().size(), 4U);
  for (const int rank : {3, 1, 0}) put(rank);
  EXPECT_THAT(actions(), IsEmpty());
  EXPECT_THAT(driver_->missing(), ElementsAre(kB0));
  put(2);
  EXPECT_THAT(actions(), ElementsAre("release 0:"));
  EXPECT_EQ(driver_->phase(), ElasticPhase::kRunning);
}

TEST_F(ElasticDriverTest, FailsIfTooFewSlotsComeInTime) {
  make({.np = 4, .min_np = 2});
  hosts({{"a", 2}});
  pass(599s);
  EXPECT_THAT(actions(), IsEmpty());
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("finish: too few slots"));
  EXPECT_EQ(finish_.message,
            "Timed out waiting for minimum number of slots to become available. Please check that you have enough "
            "resources to run at least 4 Horovod processes.");
  EXPECT_EQ(driver_->deadline(), std::nullopt);
}

TEST_F(ElasticDriverTest, SucceedsWhenAllEndWithZero) {
  run({{"a", 1}, {"b", 1}});
  exit(kA0, 0);
  EXPECT_THAT(actions(), IsEmpty());
  pass(2h);
  EXPECT_THAT(actions(), IsEmpty()) << "nobody waits for b, so it may take its time";
  exit(kB0, 0);
  EXPECT_THAT(actions(), ElementsAre("finish: succeeded"));
  EXPECT_EQ(finish_.message, "");
}

TEST_F(ElasticDriverTest, FailsIfOneEndsWithAnErrorAndTheOthersWithZero) {
  run({{"a", 1}, {"b", 1}});
  exit(kA0, 0);
  exit(kB0, 7);
  EXPECT_THAT(actions(), ElementsAre("finish: failed"));
  EXPECT_EQ(finish_.message,
            "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
            "terminated. The first process to do so was:\nProcess name: b[0]\nExit code: 7");
  ASSERT_TRUE(finish_.failure);
  EXPECT_EQ(finish_.failure->exit_code, 7);
}

TEST_F(ElasticDriverTest, ProgramWithoutHorovodSucceeds) {
  make({.np = 2});
  hosts({{"a", 2}});
  (void)actions();
  exit(kA1, 0);
  exit(kA0, 0);
  EXPECT_THAT(actions(), ElementsAre("finish: succeeded"));
}

TEST_F(ElasticDriverTest, FailedHostLeavesAndTheOthersGoOn) {
  run({{"a", 2}, {"b", 2}}, {.min_np = 2});
  exit(kB1, 137);
  ask(kB0);
  ask(kA0);
  EXPECT_THAT(driver_->missing(), ElementsAre(kA1));
  EXPECT_THAT(actions(), IsEmpty());
  ask(kA1);
  EXPECT_THAT(actions(), ElementsAre("stop b[0]", "begin 1: a[0] a[1]; start", "release 1: a[0]=0 a[1]=1"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kFailure);
  EXPECT_EQ(driver_->generation().detail, "b[1]");
  EXPECT_EQ(driver_->generation().old_size, 4);
  EXPECT_THAT(driver_->generation().lost, ElementsAre("b"));
  EXPECT_THAT(driver_->blacklisted(), ElementsAre("b"));
  exit(kB0, 143);
  EXPECT_THAT(actions(), IsEmpty()) << "we ended it";
  EXPECT_EQ(driver_->phase(), ElasticPhase::kRunning);
}

TEST_F(ElasticDriverTest, RankZeroMovesToASurvivor) {
  run({{"a", 1}, {"b", 1}, {"c", 1}});
  ask(kB0);
  ask(kC0);
  exit(kA0, 1);
  EXPECT_THAT(actions(), ElementsAre("begin 1: b[0] c[0]; start", "release 1: b[0]=0 c[0]=1"));
}

TEST_F(ElasticDriverTest, AllFailedEndsTheJob) {
  run({{"a", 1}, {"b", 1}});
  exit(kA0, 1);
  exit(kB0, 1);
  EXPECT_THAT(actions(), ElementsAre("finish: all failed"));
  EXPECT_THAT(finish_.message, HasSubstr("Process name: a[0]"));
}

TEST_F(ElasticDriverTest, AllHostsBlacklistedEndsTheJob) {
  run({{"a", 2}, {"b", 2}});
  exit(kA0, 1);
  exit(kB0, 1);
  ask(kA1);
  ask(kB1);
  EXPECT_THAT(actions(), ElementsAre("stop a[1]", "stop b[1]", "finish: hosts black-listed"));
}

TEST_F(ElasticDriverTest, ResetLimitAllowsThatManyResets) {
  run({{"a", 1}, {"b", 1}, {"c", 1}}, {.reset_limit = 1});
  exit(kC0, 1);
  ask(kA0);
  ask(kB0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0] b[0]; start", "release 1: a[0]=0 b[0]=1"));
  EXPECT_EQ(driver_->resets(), 1);
  exit(kB0, 1);
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("finish: reset limit"));
  EXPECT_EQ(finish_.message, "Horovod was shutdown because number of resets during elastic job exceeded limit: 1");
}

TEST_F(ElasticDriverTest, WaitsForSlotsAfterAFailureAndTimesOut) {
  run({{"a", 1}, {"b", 1}}, {.np = 2, .min_np = 2});
  exit(kB0, 1);
  ask(kA0);
  EXPECT_THAT(actions(), IsEmpty());
  EXPECT_EQ(driver_->phase(), ElasticPhase::kWaiting);
  EXPECT_EQ(driver_->lacks(), 1);
  hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0] c[0]; start c[0]=1"));
  EXPECT_EQ(driver_->lacks(), 0);
  put(1);
  EXPECT_THAT(actions(), ElementsAre("release 1: a[0]=0"));
  exit(kC0, 1);
  ask(kA0);
  pass(600s);
  EXPECT_THAT(actions(), ElementsAre("finish: too few slots"));
  EXPECT_THAT(finish_.message, HasSubstr("at least 2 Horovod processes"));
}

// Trap 1, 2 and 12: growth.
TEST_F(ElasticDriverTest, SurvivorsWaitForTheFirstPutOfNewProcesses) {
  run({{"a", 1}});
  hosts({{"a", 1}, {"b", 2}});
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0] b[0] b[1]; start b[0]=1 b[1]=2"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kHosts);
  pass(300s);
  put(2);
  EXPECT_THAT(actions(), IsEmpty()) << "however long the imports take";
  driver_->on_first_put(0, 1, time());
  EXPECT_THAT(actions(), IsEmpty()) << "of an older generation";
  put(1);
  EXPECT_THAT(actions(), ElementsAre("release 1: a[0]=0"));
}

// Trap 3.
TEST_F(ElasticDriverTest, NewProcessThatEndsEarlyIsNotNoticedBySurvivors) {
  run({{"a", 1}, {"b", 1}});
  hosts({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}});
  ask(kA0);
  ask(kB0);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]", "begin 1: a[0] b[0] c[0] d[0]; start c[0]=2 d[0]=3"));
  put(3);
  exit(kC0, 1);
  EXPECT_THAT(actions(), IsEmpty());
  EXPECT_EQ(driver_->phase(), ElasticPhase::kSettling);
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop d[0]")) << "its rank changes";
  EXPECT_THAT(driver_->blacklisted(), ElementsAre("c"));
  exit(kD0, 143);
  EXPECT_THAT(actions(), ElementsAre("begin 2: a[0] b[0] d[0]; start d[0]=2"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kNewProcess);
  EXPECT_EQ(driver_->generation().detail, "c[0]");
  EXPECT_EQ(driver_->generation().old_size, 2);
  put(2);
  EXPECT_THAT(actions(), ElementsAre("release 2: a[0]=0 b[0]=1"));
  EXPECT_EQ(driver_->resets(), 1);
}

TEST_F(ElasticDriverTest, OnlyNewSlotOfAHostWithSurvivorsIsDropped) {
  run({{"a", 1}, {"b", 1}});
  hosts({{"a", 2}, {"b", 1}});
  ask(kA0);
  ask(kB0);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]", "begin 1: a[0] a[1] b[0]; start a[1]=1"));
  exit(kA1, 1);
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("begin 2: a[0] b[0]; start", "release 2: a[0]=0 b[0]=1"));
  EXPECT_THAT(driver_->blacklisted(), IsEmpty());
  pass(60s);
  EXPECT_THAT(actions(), IsEmpty()) << "no notice for the slot that failed";
}

TEST_F(ElasticDriverTest, SurvivorThatEndsWhileItWaitsChangesThePlanAgain) {
  run({{"a", 1}, {"b", 1}});
  hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  ask(kA0);
  ask(kB0);
  (void)actions();
  exit(kA0, 139);
  put(2);
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop c[0]"));
  exit(kC0, 143);
  EXPECT_THAT(actions(), ElementsAre("begin 2: b[0] c[0]; start c[0]=1"));
}

TEST_F(ElasticDriverTest, AllNewProcessesEndAtTheFirstStart) {
  make({.np = 2, .min_np = 1});
  hosts({{"a", 1}, {"b", 1}});
  (void)actions();
  exit(kA0, 2);
  EXPECT_THAT(actions(), IsEmpty());
  exit(kB0, 2);
  EXPECT_THAT(actions(), ElementsAre("finish: all failed"));
}

TEST_F(ElasticDriverTest, FirstStartGoesOnWithoutABadHost) {
  make({.np = 2, .min_np = 1});
  hosts({{"a", 1}, {"b", 1}});
  (void)actions();
  put(1);
  exit(kA0, 2);
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop b[0]"));
  exit(kB0, 143);
  EXPECT_THAT(actions(), ElementsAre("begin 1: b[0]; start b[0]=0"));
}

// Trap 4.
TEST_F(ElasticDriverTest, LostHostIsAFailureOfAllItsSlots) {
  run({{"a", 1}, {"b", 2}});
  ask(kA0);
  ask(kB1);
  EXPECT_THAT(actions(), IsEmpty());
  driver_->on_host_lost("b", time());
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0]; start", "release 1: a[0]=0"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kHostLost);
  EXPECT_EQ(driver_->generation().detail, "b");
  EXPECT_THAT(driver_->blacklisted(), ElementsAre("b"));
}

TEST_F(ElasticDriverTest, LostHostBeforeOthersReport) {
  run({{"a", 1}, {"b", 2}});
  driver_->on_host_lost("b", time());
  EXPECT_THAT(driver_->missing(), ElementsAre(kA0));
  (void)actions();
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0]; start", "release 1: a[0]=0"));
}

TEST_F(ElasticDriverTest, LostHostDuringAResetChangesThePlanAgain) {
  run({{"a", 1}});
  hosts({{"a", 1}, {"b", 2}, {"c", 1}});
  ask(kA0);
  (void)actions();
  driver_->on_host_lost("b", time());
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop c[0]"));
  exit(kC0, 143);
  EXPECT_THAT(actions(), ElementsAre("begin 2: a[0] c[0]; start c[0]=1"));
}

// Trap 6: the slot starts again, but never as rank 0.
TEST_F(ElasticDriverTest, HostOfAnAbortedSurvivorStays) {
  run({{"a", 1}, {"b", 1}, {"c", 1}});
  exit(kB0, 1);
  exit(kA0, 134);
  ask(kC0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: c[0] a[0]; start a[0]=1"));
  EXPECT_THAT(driver_->blacklisted(), ElementsAre("b"));
  put(1);
  EXPECT_THAT(actions(), ElementsAre("release 1: c[0]=0"));
}

// Trap 7 and 11.
TEST_F(ElasticDriverTest, NoticesHaveDistinctSecondsAndAreRepeated) {
  run({{"a", 1}});
  hosts({{"a", 1}, {"b", 1}});
  hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  EXPECT_THAT(actions(), ElementsAre("notify a[0]")) << "one in a second";
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  pass(5s);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  driver_->on_notice_failed(kA0, time());
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  ASSERT_EQ(timestamps_.size(), 4U);
  for (std::size_t i = 1; i < timestamps_.size(); ++i) EXPECT_GT(timestamps_[i], timestamps_[i - 1]);
  hosts({{"a", 1}});
  pass(60s);
  EXPECT_THAT(actions(), IsEmpty()) << "the plan is right again";
}

TEST_F(ElasticDriverTest, ClockThatGoesBackDoesNotRepeatATimestamp) {
  run({{"a", 1}});
  const ElasticTime before{clock_.now(), clock_.wall() - 1h};
  hosts({{"a", 1}, {"b", 1}});
  (void)actions();
  driver_->tick({clock_.now() + 5s, before.wall});
  (void)actions();
  ASSERT_EQ(timestamps_.size(), 2U);
  EXPECT_EQ(timestamps_[1], timestamps_[0] + 1);
}

TEST_F(ElasticDriverTest, NewRankZeroHearsThatThePlanIsOutOfDate) {
  run({{"a", 1}, {"b", 1}});
  hosts({{"a", 1}, {"b", 1}, {"c", 1}});
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  exit(kA0, 1);
  ask(kB0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: b[0] c[0]; start c[0]=1"));
  hosts({{"b", 1}, {"c", 1}, {"d", 1}});
  EXPECT_THAT(actions(), IsEmpty()) << "answers are held";
  put(1);
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("release 1: b[0]=0", "notify b[0]"));
}

TEST_F(ElasticDriverTest, ChangeThatLeavesThePlanAsItIsIsNotReported) {
  run({{"a", 1}, {"b", 1}}, {.max_np = 2});
  hosts({{"a", 1}, {"b", 1}, {"c", 4}});
  pass(60s);
  EXPECT_THAT(actions(), IsEmpty());
  driver_->set_size(1, 3, time());
  EXPECT_THAT(actions(), ElementsAre("notify a[0]")) << "a resize";
}

TEST_F(ElasticDriverTest, RemovedHostsWorkersAreToldAndStoppedIfTheyStay) {
  run({{"a", 1}, {"b", 2}});
  hosts({{"a", 1}, {"b", 1}});
  (void)actions();
  ask(kB1);
  ask(kB0);
  EXPECT_THAT(driver_->missing(), ElementsAre(kA0));
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0] b[0]; start", "release 1: a[0]=0 b[0]=1 b[1]=-1"));
  ask(kB1);
  EXPECT_THAT(actions(), ElementsAre("release 1: b[1]=-1")) << "it lost the answer";
  pass(30s);
  EXPECT_THAT(actions(), ElementsAre("stop b[1]"));
  exit(kB1, 143);
  EXPECT_THAT(actions(), IsEmpty());
  EXPECT_EQ(driver_->phase(), ElasticPhase::kRunning);
}

TEST_F(ElasticDriverTest, SlotStartsAgainOnlyAfterItsOldProcessEnded) {
  run({{"a", 1}, {"b", 1}});
  hosts({{"a", 1}});
  ask(kB0);
  ask(kA0);
  hosts({{"a", 1}, {"b", 1}});
  (void)actions();
  ask(kA0);
  EXPECT_THAT(actions(), IsEmpty()) << "the old process of b[0] is alive";
  exit(kB0, 1);
  EXPECT_THAT(actions(), ElementsAre("begin 2: a[0] b[0]; start b[0]=1"));
}

TEST_F(ElasticDriverTest, HostReturnsAfterItsCooldown) {
  run({{"a", 1}, {"b", 1}}, {.cooldown = {{1s, 10s}}});
  exit(kB0, 1);
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0]; start", "release 1: a[0]=0"));
  pass(1s);
  EXPECT_THAT(actions(), IsEmpty());
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("begin 2: a[0] b[0]; start b[0]=1"));
  EXPECT_THAT(driver_->generation().added, ElementsAre("b"));
}

TEST_F(ElasticDriverTest, LateWorkerIsStoppedWhileOthersWait) {
  run({{"a", 1}, {"b", 1}});
  ask(kA0);
  pass(599s);
  EXPECT_THAT(actions(), IsEmpty());
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop b[0]", "begin 1: a[0]; start", "release 1: a[0]=0"));
}

TEST_F(ElasticDriverTest, AWorldWhoseSurvivorsNeverAskEndsAfterAFailure) {
  run({{"a", 1}, {"b", 1}}, {.elastic_timeout = 2s});
  exit(kB0, 3);
  pass(599s);
  EXPECT_THAT(actions(), IsEmpty()) << "a short --elastic-timeout does not end ranks that are busy";
  EXPECT_THAT(driver_->missing(), ElementsAre(kA0));
  pass(1s);
  EXPECT_THAT(actions(), ElementsAre("stop a[0]", "finish: all failed"));
}

TEST_F(ElasticDriverTest, NoHostOfTheOldWorldLeft) {
  run({{"a", 1}});
  hosts({{"b", 1}});
  EXPECT_THAT(actions(), ElementsAre("notify a[0]"));
  ask(kA0);
  EXPECT_THAT(actions(), ElementsAre("finish: no survivor"));
  EXPECT_EQ(finish_.message, "No hosts from previous set remaining, unable to broadcast state.");
}

TEST_F(ElasticDriverTest, AsksAndEndsOfUnknownSlotsChangeNothing) {
  run({{"a", 1}, {"b", 1}});
  ask(kC0);
  exit(kC0, 1);
  driver_->on_host_lost("c", time());
  put(17);
  put(-1);
  EXPECT_THAT(actions(), IsEmpty());
  EXPECT_EQ(driver_->phase(), ElasticPhase::kRunning);
}

TEST_F(ElasticDriverTest, NothingHappensAfterTheEnd) {
  run({{"a", 1}, {"b", 1}});
  exit(kA0, 1);
  exit(kB0, 1);
  (void)actions();
  ask(kA0);
  exit(kA0, 0);
  hosts({{"c", 4}});
  driver_->on_host_lost("c", time());
  pass(2h);
  EXPECT_THAT(actions(), IsEmpty());
}

TEST_F(ElasticDriverTest, RepeatedAskCountsOnce) {
  run({{"a", 1}, {"b", 1}});
  ask(kA0);
  ask(kA0);
  EXPECT_EQ(driver_->phase(), ElasticPhase::kBarrier);
  ask(kB0);
  EXPECT_THAT(actions(), ElementsAre("begin 1: a[0] b[0]; start", "release 1: a[0]=0 b[0]=1"));
  EXPECT_EQ(driver_->generation().cause, ElasticCause::kWorkers);
}

TEST(ElasticDriverSoak, KeepsItsRulesAndNeverGetsStuck) {
  int released = 0;
  int survived = 0;
  for (unsigned seed = 0; seed < 1000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    elastic_soak::Soak soak(seed);
    for (int i = 0; i < 600 && !soak.is_over(); ++i) soak.step(true);
    soak.settle();
    EXPECT_TRUE(soak.is_over() || soak.phase() == ElasticPhase::kRunning) << name_of(soak.phase());
    released += soak.released();
    if (!soak.is_over()) ++survived;
  }
  EXPECT_GT(released, 5'000);
  EXPECT_GT(survived, 20);
}

}  // namespace
}  // namespace muster::launcherd::elastic_driver_test
