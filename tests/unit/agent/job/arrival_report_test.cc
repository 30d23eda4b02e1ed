#include "agent/job/arrival_report.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::arrival_report_test {
namespace {

using base::SampleKind;
using ::testing::ElementsAre;

RankStatus status(std::vector<RankArrival> arrivals) {
  return {.rank = 3, .world_rank = 3, .size = 4, .world = 256, .ended = 7, .beats = 2, .arrivals = std::move(arrivals)};
}

TEST(NewArrivals, ReportsEachArrivalOnce) {
  NewArrivals fresh;
  const auto first = fresh.select({status({{SampleKind::kCollective, 4, 400}, {SampleKind::kCollective, 8, 800}})}, 4);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->ranks_size(), 1);
  EXPECT_EQ(first->ranks(0).rank(), 3);
  EXPECT_EQ(first->ranks(0).world(), 256);
  EXPECT_EQ(first->ranks(0).stride(), 4U);
  EXPECT_EQ(first->ranks(0).ended(), 7U);
  EXPECT_THAT(first->ranks(0).operations(), ElementsAre(4, 8));
  EXPECT_THAT(first->ranks(0).agent_ns(), ElementsAre(400, 800));
  const auto later =
      fresh.select({status({{SampleKind::kCollective, 8, 800}, {SampleKind::kCollective, 12, 1200}})}, 4);
  ASSERT_TRUE(later);
  EXPECT_THAT(later->ranks(0).operations(), ElementsAre(12));
  EXPECT_FALSE(fresh.select({status({{SampleKind::kCollective, 12, 1200}})}, 4));
}

TEST(NewArrivals, KeepsHeartbeatsApart) {
  NewArrivals fresh;
  const auto times = fresh.select({status({{SampleKind::kEngine, 1, 10}, {SampleKind::kHeartbeat, 1, 20}})}, 4);
  ASSERT_TRUE(times);
  ASSERT_EQ(times->ranks_size(), 2);
  EXPECT_THAT(times->ranks(0).operations(), ElementsAre((std::uint64_t{1} << 62) + 1));
  EXPECT_TRUE(times->ranks(1).beats_only());
  EXPECT_THAT(times->ranks(1).operations(), ElementsAre(1));
}

TEST(NewArrivals, LeavesOutOperationsOfOtherWorlds) {
  NewArrivals fresh;
  EXPECT_FALSE(fresh.select({status({{SampleKind::kCollective, 1, 10}})}, 8));
  EXPECT_TRUE(fresh.select({status({{SampleKind::kHeartbeat, 1, 10}})}, 8));
}

TEST(NewArrivals, ANewWorldBeginsAnew) {
  NewArrivals fresh;
  EXPECT_TRUE(fresh.select({status({{SampleKind::kCollective, 1, 1000}})}, 4));
  RankStatus next = status({{SampleKind::kCollective, 1, 900}});
  next.world = 512;
  EXPECT_TRUE(fresh.select({next}, 4));
}

TEST(ArrivalReport, SendsWhatThePagesSay) {
  testing_support::TempDir dir;
  base::RankPage page{};
  page.magic = base::kRankPageMagic;
  page.world_rank = -1;
  page.beats = 1;
  page.samples[0] = {.number = (std::uint64_t{2} << base::kSampleKindShift) + 1, .ns = 1};
  dir.write("status.1.1", std::string(reinterpret_cast<const char*>(&page), sizeof page));
  const base::UniqueFd owner(::open((dir / "status.1.1").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(owner.get(), LOCK_EX), 0);
  base::Loop loop;
  std::vector<v1::ArrivalTimes> sent;
  ArrivalReport report(loop, [&](v1::ArrivalTimes times) {
    sent.push_back(std::move(times));
    loop.stop();
  });
  report.begin(dir.path(), 2);
  loop.run();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ranks(0).beats(), 1U);
}

}  // namespace
}  // namespace muster::agent::arrival_report_test
