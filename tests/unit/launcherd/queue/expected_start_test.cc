#include "launcherd/queue/expected_start.h"

#include <gtest/gtest.h>

namespace muster::launcherd::expected_start_test {
namespace {

using std::chrono::seconds;

constexpr seconds kMinute{60};

base::JobId id(char letter) {
  return *base::JobId::parse(std::string(8, letter));
}

JobNeed need(int np) {
  JobNeed need;
  need.request.np = np;
  return need;
}

std::vector<SlotHost> two_used() {
  return {{.host = {.name = "n1", .slots = 2}, .slots = 2, .used = 2}};
}

RunningUntil one_slot_for(base::Duration left) {
  model::Placement placement{.size = 1, .hosts = {{.host = {.name = "n1", .slots = 1}, .slots = 1, .ranks = {{}}}}};
  return {std::move(placement), left};
}

std::optional<base::Duration> a_minute(const base::JobId&) {
  return kMinute;
}

TEST(ExpectedStart, IsTheEndOfTheJobInTheWay) {
  JobQueue queue;
  queue.add(id('a'), 0, 0, need(1));
  queue.add(id('b'), 0, 1, need(2));
  const std::vector<RunningUntil> running = {one_slot_for(seconds(30)), one_slot_for(seconds(50))};
  EXPECT_EQ(expected_start(queue, id('a'), two_used(), running, a_minute), seconds(30));
  EXPECT_EQ(expected_start(queue, id('b'), two_used(), running, a_minute), seconds(90)) << "after the first one's run";
  EXPECT_EQ(queue.size(), 2u) << "the estimate changes a copy";
}

TEST(ExpectedStart, IsNowIfTheJobFits) {
  JobQueue queue;
  queue.add(id('a'), 0, 0, need(1));
  std::vector<SlotHost> hosts = two_used();
  hosts[0].used = 1;
  EXPECT_EQ(expected_start(queue, id('a'), hosts, {}, a_minute), seconds(0));
}

TEST(ExpectedStart, IsUnknownBehindAJobWithoutALimit) {
  JobQueue queue;
  queue.add(id('a'), 0, 0, need(1));
  queue.add(id('b'), 0, 1, need(2));
  EXPECT_EQ(expected_start(queue, id('a'), two_used(), {}, a_minute), std::nullopt);
  const std::vector<RunningUntil> running = {one_slot_for(seconds(30)), one_slot_for(seconds(50))};
  const auto no_limit = [](const base::JobId&) { return std::optional<base::Duration>(); };
  EXPECT_EQ(expected_start(queue, id('a'), two_used(), running, no_limit), seconds(30));
  EXPECT_EQ(expected_start(queue, id('b'), two_used(), running, no_limit), std::nullopt);
}

TEST(ExpectedStart, IsUnknownForAHeldJobAndInALongQueue) {
  JobQueue queue;
  std::vector<SlotHost> hosts = two_used();
  hosts[0].used = 0;
  queue.add(id('a'), 0, 0, need(1));
  queue.hold(id('a'));
  EXPECT_EQ(expected_start(queue, id('a'), hosts, {}, a_minute), std::nullopt);
  queue.release(id('a'));
  EXPECT_EQ(expected_start(queue, id('a'), hosts, {}, a_minute), seconds(0));
  const std::vector<RunningUntil> many(kMostEstimated, one_slot_for(seconds(1)));
  EXPECT_EQ(expected_start(queue, id('a'), hosts, many, a_minute), std::nullopt);
}

}  // namespace
}  // namespace muster::launcherd::expected_start_test
