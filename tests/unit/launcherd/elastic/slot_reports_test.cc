#include "launcherd/elastic/slot_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::slot_reports_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = SlotReport::Kind;

constexpr base::MonotonicTime kNow{1000s};

SlotReport ready(base::Duration at = 0s) {
  return {.kind = Kind::kReady, .at = kNow + at};
}
SlotReport succeeded() {
  return {.kind = Kind::kSucceeded, .at = kNow};
}
SlotReport failed(int exit_code = 1, base::Duration at = 0s) {
  return {.kind = Kind::kFailed, .at = kNow + at, .exit_code = exit_code};
}

class SlotReportsTest : public ::testing::Test {
 protected:
  SlotReportsTest() {
    reports_.begin(make_elastic_plan(std::vector<ElasticHost>{{"a", 2}, {"b", 1}}, 1, std::nullopt).value());
  }
  void add_all(const SlotReport& a0, const SlotReport& a1, const SlotReport& b0) {
    EXPECT_TRUE(reports_.add({"a", 0}, a0));
    EXPECT_TRUE(reports_.add({"a", 1}, a1));
    EXPECT_TRUE(reports_.add({"b", 0}, b0));
  }

  SlotReports reports_;
};

TEST_F(SlotReportsTest, IsCompleteWhenAllSlotsReported) {
  EXPECT_TRUE(reports_.empty());
  EXPECT_TRUE(reports_.add({"a", 0}, ready()));
  EXPECT_FALSE(reports_.add({"c", 0}, ready())) << "not in the plan";
  EXPECT_THAT(reports_.missing(), ElementsAre(ElasticSlot{"a", 1}, ElasticSlot{"b", 0}));
  EXPECT_TRUE(reports_.add({"a", 1}, failed()));
  EXPECT_FALSE(reports_.is_complete());
  EXPECT_TRUE(reports_.add({"b", 0}, succeeded()));
  EXPECT_TRUE(reports_.is_complete());
}

TEST_F(SlotReportsTest, OnlyFailureReplacesReady) {
  EXPECT_TRUE(reports_.add({"a", 0}, ready()));
  EXPECT_FALSE(reports_.add({"a", 0}, ready()));
  EXPECT_FALSE(reports_.add({"a", 0}, succeeded()));
  EXPECT_TRUE(reports_.add({"a", 0}, failed()));
  EXPECT_FALSE(reports_.add({"a", 0}, ready()));
  EXPECT_TRUE(reports_.any(Kind::kFailed));
  EXPECT_FALSE(reports_.any(Kind::kReady));
}

TEST_F(SlotReportsTest, EndsAsHorovodDecides) {
  add_all(ready(), ready(), ready());
  EXPECT_EQ(reports_.end(), std::nullopt);
  reports_.begin(make_elastic_plan(std::vector<ElasticHost>{{"a", 2}, {"b", 1}}, 1, std::nullopt).value());
  add_all(ready(), failed(), succeeded());
  EXPECT_EQ(reports_.end(), ElasticEnd::kFailed);
  reports_.begin(make_elastic_plan(std::vector<ElasticHost>{{"a", 2}, {"b", 1}}, 1, std::nullopt).value());
  add_all(ready(), succeeded(), ready());
  EXPECT_EQ(reports_.end(), ElasticEnd::kSucceeded);
  reports_.begin(make_elastic_plan(std::vector<ElasticHost>{{"a", 2}, {"b", 1}}, 1, std::nullopt).value());
  add_all(failed(), failed(), failed());
  EXPECT_EQ(reports_.end(), ElasticEnd::kAllFailed);
}

TEST_F(SlotReportsTest, BlamesHostsOfFailures) {
  add_all(ready(), failed(), ready());
  EXPECT_THAT(reports_.failed_hosts(30s), ElementsAre("a"));
  EXPECT_FALSE(reports_.are_all_hosts({"a"}));
  EXPECT_TRUE(reports_.are_all_hosts({"b", "a"}));
}

// horovod#3264: survivors abort while they take their communicators down.
TEST_F(SlotReportsTest, BlamesNoHostForAnAbortNearToAFailureElsewhere) {
  add_all(ready(), failed(134, 5s), failed(1, 0s));
  EXPECT_THAT(reports_.failed_hosts(30s), ElementsAre("b"));
  EXPECT_THAT(reports_.failed_hosts(4s), ElementsAre("a", "b")) << "too late";
  EXPECT_THAT(reports_.failed_hosts(0s), ElementsAre("a", "b")) << "switched off";
}

TEST_F(SlotReportsTest, BlamesHostsForAbortsWithoutACause) {
  add_all(ready(), failed(134), ready());
  EXPECT_THAT(reports_.failed_hosts(30s), ElementsAre("a"));
  reports_.begin(make_elastic_plan(std::vector<ElasticHost>{{"a", 2}, {"b", 1}}, 1, std::nullopt).value());
  add_all(ready(), failed(134), failed(134));
  EXPECT_THAT(reports_.failed_hosts(30s), ElementsAre("a", "b")) << "one abort does not excuse another";
}

TEST_F(SlotReportsTest, BlamesNoHostForWhatWeEnded) {
  SlotReport ours = failed(137);
  ours.is_ours = true;
  add_all(ready(), ours, ready());
  EXPECT_THAT(reports_.failed_hosts(30s), IsEmpty());
}

TEST_F(SlotReportsTest, FindsTheFirstFailure) {
  EXPECT_EQ(reports_.first(Kind::kFailed), std::nullopt);
  add_all(failed(3, 2s), ready(), failed(4, 1s));
  ASSERT_TRUE(reports_.first(Kind::kFailed));
  EXPECT_EQ(reports_.first(Kind::kFailed)->first, (ElasticSlot{"b", 0}));
}

}  // namespace
}  // namespace muster::launcherd::slot_reports_test
