// The autotuner against a made-up machine whose best point is known.
#include "collectives/engine/autotuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace muster::collectives::autotuner_test {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

// Bytes per microsecond: best with 16 MiB and no cycle.
double speed_at(const Tuned& tuned) {
  const double fusion = tuned.fusion_bytes == 0 ? 19 : std::log2(static_cast<double>(tuned.fusion_bytes));
  const double cycle = static_cast<double>(tuned.cycle.count()) / 1000;
  return 1000 - 40 * std::abs(fusion - 24) - 30 * cycle;
}

// How often it was asked before it was done.
int run(Autotuner& tuner, Tuned& tuned) {
  base::MonotonicTime now{};
  int steps = 0;
  while (!tuner.is_done()) {
    constexpr std::size_t kBytes = 1 << 20;
    now += std::chrono::nanoseconds(static_cast<std::int64_t>(1000 * kBytes / speed_at(tuned)));
    tuned = tuner.record(kBytes, now);
    ++steps;
  }
  return steps;
}

TEST(AutotunerTest, FindsAPointNearTheBestAndKeepsIt) {
  Tuned tuned{.fusion_bytes = std::size_t{128} << 20, .cycle = microseconds(4000)};
  const double before = speed_at(tuned);
  auto tuner = Autotuner::create({.is_on = true, .steps_per_sample = 2, .most_samples = 20, .noise = 0.1}, tuned);
  ASSERT_TRUE(tuner.ok()) << tuner.status();
  EXPECT_EQ(run(*tuner, tuned), 1 + 2 * (3 + 20));  // the first one counts for nothing
  EXPECT_GT(speed_at(tuned), 950) << tuned.fusion_bytes << " " << tuned.cycle.count();
  EXPECT_GT(speed_at(tuned), before);
  EXPECT_EQ(tuner->record(1, {}), tuned);
}

TEST(AutotunerTest, WhatTheUserHasSetStays) {
  const Tuned start{.fusion_bytes = 12345, .cycle = microseconds(4000)};
  Tuned tuned = start;
  auto tuner = Autotuner::create({.is_on = true, .steps_per_sample = 1, .fusion_is_fixed = true}, tuned);
  ASSERT_TRUE(tuner.ok()) << tuner.status();
  run(*tuner, tuned);
  EXPECT_EQ(tuned.fusion_bytes, start.fusion_bytes);
  EXPECT_LT(tuned.cycle, start.cycle);
}

TEST(AutotunerTest, LogsEverySample) {
  const std::string path = std::filesystem::temp_directory_path() / ("autotune-" + std::to_string(getpid()) + ".csv");
  Tuned tuned{.fusion_bytes = 1 << 20, .cycle = microseconds(1000)};
  auto tuner = Autotuner::create(
      {.is_on = true, .log = path, .warmup_samples = 0, .steps_per_sample = 1, .most_samples = 3}, tuned);
  ASSERT_TRUE(tuner.ok()) << tuner.status();
  run(*tuner, tuned);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_THAT(text.str(), HasSubstr("fusion_bytes,cycle_ms,bytes_per_us\n1048576,1,"));
  EXPECT_EQ(std::ranges::count(text.str(), '\n'), 4);
}

TEST(AutotunerTest, ALogThatCannotBeWrittenIsAnError) {
  const auto tuner = Autotuner::create({.is_on = true, .log = "/nonexistent/autotune.csv"}, {});
  EXPECT_EQ(tuner.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(tuner.status().message(), HasSubstr("/nonexistent/autotune.csv"));
}

}  // namespace
}  // namespace muster::collectives::autotuner_test
