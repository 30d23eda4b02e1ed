#include "cli/view/step_meter.h"

#include <gtest/gtest.h>

namespace muster::cli::step_meter_test {
namespace {

constexpr base::MonotonicTime kStart{std::chrono::hours(1)};

struct Report {
  int rank = 0;
  std::uint64_t ended = 0;
  std::uint64_t beats = 0;
  int world = 0;
};

void add(StepMeter& meter, int seconds, const std::vector<Report>& reports) {
  v1::ArrivalTimes times;
  for (const Report& report : reports) {
    v1::RankArrivals& rank = *times.add_ranks();
    rank.set_rank(report.rank);
    rank.set_world(report.world);
    rank.set_ended(report.ended);
    rank.set_beats(report.beats);
  }
  meter.add(times, kStart + std::chrono::seconds(seconds));
}

TEST(StepMeter, NeedsTwoReportsOfARank) {
  StepMeter meter;
  EXPECT_FALSE(meter.take_rate());
  add(meter, 2, {{.rank = 0, .ended = 100}});
  EXPECT_FALSE(meter.take_rate());
  add(meter, 4, {{.rank = 0, .ended = 140}});
  EXPECT_EQ(meter.take_rate(), 20.0);
  EXPECT_EQ(meter.take_rate(), 0.0) << "no report means no step";
}

TEST(StepMeter, TakesTheMedianOfTheRanks) {
  StepMeter meter;
  add(meter, 0, {{.rank = 0}, {.rank = 1}, {.rank = 2}});
  add(meter, 2, {{.rank = 0, .ended = 10}, {.rank = 1, .ended = 20}, {.rank = 2, .ended = 2000}});
  EXPECT_EQ(meter.take_rate(), 10.0);
}

TEST(StepMeter, HeartbeatsAreTheStepsIfThereAreAny) {
  StepMeter meter;
  add(meter, 0, {{.rank = 0, .ended = 0, .beats = 5}});
  add(meter, 1, {{.rank = 0, .ended = 1000, .beats = 8}});
  EXPECT_EQ(meter.take_rate(), 3.0);
}

TEST(StepMeter, ANewWorldCountsFromItsFirstReport) {
  StepMeter meter;
  add(meter, 0, {{.rank = 0, .ended = 500}});
  add(meter, 2, {{.rank = 0, .ended = 10, .world = 256}});
  EXPECT_FALSE(meter.take_rate());
  add(meter, 4, {{.rank = 0, .ended = 30, .world = 256}});
  EXPECT_EQ(meter.take_rate(), 10.0);
}

}  // namespace
}  // namespace muster::cli::step_meter_test
