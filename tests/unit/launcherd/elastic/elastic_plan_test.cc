#include "launcherd/elastic/elastic_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::elastic_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> lines(const ElasticPlan& plan) {
  std::vector<std::string> lines;
  for (const PlannedSlot& each : plan) lines.push_back(format_slot(each.slot) + " " + format_slot_plan(each.plan));
  return lines;
}

std::vector<std::string> plan(const std::vector<ElasticHost>& hosts, std::optional<int> max_np = std::nullopt) {
  return lines(make_elastic_plan(hosts, 1, max_np).value());
}

TEST(ElasticPlan, FillsHostsInOrder) {
  EXPECT_THAT(plan({{"a", 2}, {"b", 2}}),
              ElementsAre("a[0] 0,4,0,2,0,2", "a[1] 1,4,1,2,0,2", "b[0] 2,4,0,2,1,2", "b[1] 3,4,1,2,1,2"));
}

// launchers.md 1.2: in a:2,b:3,c:1 b's local rank 2 has cross rank 0 of 1.
TEST(ElasticPlan, CountsCrossRanksAmongHostsThatHaveTheLocalRank) {
  EXPECT_THAT(plan({{"a", 2}, {"b", 3}, {"c", 1}}),
              ElementsAre("a[0] 0,6,0,2,0,3", "a[1] 1,6,1,2,0,2", "b[0] 2,6,0,3,1,3", "b[1] 3,6,1,3,1,2",
                          "b[2] 4,6,2,3,0,1", "c[0] 5,6,0,1,2,3"));
}

TEST(ElasticPlan, StopsAtTheLargestSize) {
  EXPECT_THAT(plan({{"a", 2}, {"b", 2}}, 3), ElementsAre("a[0] 0,3,0,2,0,2", "a[1] 1,3,1,2,0,1", "b[0] 2,3,0,1,1,2"));
  EXPECT_THAT(plan({{"a", 1}, {"b", 2}}, 1), ElementsAre("a[0] 0,1,0,1,0,1"));
}

TEST(ElasticPlan, SkipsHostsWithoutSlots) {
  EXPECT_THAT(plan({{"a", 0}, {"b", 1}, {"c", -3}}), ElementsAre("b[0] 0,1,0,1,0,1"));
}

TEST(ElasticPlan, FailsWithTooFewSlots) {
  const std::vector<ElasticHost> hosts = {{"a", 1}, {"b", 1}};
  const auto refused = make_elastic_plan(hosts, 3, std::nullopt);
  EXPECT_EQ(refused.status().code(), base::Code::kResourceExhausted);
  EXPECT_THAT(refused.status().message(), HasSubstr("2 slots; the job needs 3"));
  EXPECT_FALSE(make_elastic_plan({}, 0, std::nullopt).ok());
}

TEST(ElasticPlan, FormatsSixNumbers) {
  EXPECT_EQ(format_slot_plan(SlotPlan{0, 4, 0, 2, 0, 2}), "0,4,0,2,0,2");
  EXPECT_EQ(format_slot_plan(std::nullopt), "-1,-1,-1,-1,-1,-1");
}

TEST(ElasticPlan, FindsSlots) {
  const ElasticPlan made = make_elastic_plan(std::vector<ElasticHost>{{"a", 2}}, 1, std::nullopt).value();
  ASSERT_NE(find_slot(made, {"a", 1}), nullptr);
  EXPECT_EQ(find_slot(made, {"a", 1})->plan.rank, 1);
  EXPECT_EQ(find_slot(made, {"a", 2}), nullptr);
  EXPECT_EQ(find_slot(made, {"b", 0}), nullptr);
}

TEST(ElasticPlan, AnIndexFindsTheSameSlots) {
  const ElasticPlan made =
      make_elastic_plan(std::vector<ElasticHost>{{"b", 2}, {"a", 3}, {"c", 1}}, 1, std::nullopt).value();
  const SlotIndex index(made);
  for (const char* host : {"a", "b", "c", "d"}) {
    for (int local = 0; local < 4; ++local) {
      EXPECT_EQ(index.find({host, local}), find_slot(made, {host, local})) << host << local;
    }
  }
  EXPECT_EQ(SlotIndex({}).find({"a", 0}), nullptr);
}

}  // namespace
}  // namespace muster::launcherd::elastic_plan_test
