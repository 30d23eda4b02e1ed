// What HOROVOD_* variables make of the engine's settings.
#include "collectives/engine/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace muster::collectives::settings_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class SettingsTest : public testing::Test {
 protected:
  base::Result<EngineSettings> with(const std::vector<std::pair<std::string, std::string>>& variables) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    auto made = EngineSettings::from_environment();
    for (const auto& [name, value] : variables) unsetenv(name.c_str());
    return made;
  }
};

TEST_F(SettingsTest, WithoutVariablesTheyAreTheDefaults) {
  const auto made = with({{"HOROVOD_FUSION_THRESHOLD", ""}});  // empty is not set
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->fusion_bytes, 128U << 20);
  EXPECT_EQ(made->cache_capacity, 1024U);
  EXPECT_EQ(made->cycle.count(), 0);
  EXPECT_TRUE(made->stall.is_checked);
  EXPECT_EQ(made->stall.warning, milliseconds(60'000));
  EXPECT_FALSE(made->autotune.is_on);
}

TEST_F(SettingsTest, EveryVariableIsReadInItsUnit) {
  const auto made = with({{"HOROVOD_FUSION_THRESHOLD", "1048576"},
                          {"HOROVOD_CACHE_CAPACITY", "7"},
                          {"HOROVOD_CYCLE_TIME", "2.5"},
                          {"HOROVOD_DISABLE_GROUP_FUSION", "1"},
                          {"HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
                          {"HOROVOD_THREAD_AFFINITY", "3,0"},
                          {"HOROVOD_TIMELINE", "/tmp/t.json"},
                          {"HOROVOD_TIMELINE_MARK_CYCLES", "1"},
                          {"HOROVOD_STALL_CHECK_TIME_SECONDS", "1.5"},
                          {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "9"},
                          {"HOROVOD_LOG_LEVEL", "error"},
                          {"HOROVOD_AUTOTUNE", "1"},
                          {"HOROVOD_AUTOTUNE_LOG", "a.csv"},
                          {"HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
                          {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2"},
                          {"HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "5"},
                          {"HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.1"}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->fusion_bytes, 1048576U);
  EXPECT_EQ(made->cache_capacity, 7U);
  EXPECT_EQ(made->cycle, microseconds(2500));
  EXPECT_FALSE(made->fuses_groups);
  EXPECT_TRUE(made->is_hierarchical);
  ASSERT_TRUE(made->affinity.has_value());
  EXPECT_THAT(*made->affinity, ElementsAre(3, 0));
  EXPECT_EQ(made->timeline, "/tmp/t.json");
  EXPECT_TRUE(made->marks_turns);
  EXPECT_EQ(made->stall.warning, milliseconds(1500));
  EXPECT_EQ(made->stall.shutdown, milliseconds(9000));
  EXPECT_FALSE(made->stall.is_reported);
  EXPECT_TRUE(made->autotune.is_on);
  EXPECT_EQ(made->autotune.log, "a.csv");
  EXPECT_EQ(made->autotune.warmup_samples, 1);
  EXPECT_EQ(made->autotune.steps_per_sample, 2);
  EXPECT_EQ(made->autotune.most_samples, 5);
  EXPECT_DOUBLE_EQ(made->autotune.noise, 0.1);
}

TEST_F(SettingsTest, TorusAndADynamicTimeline) {
  const auto made = with({{"HOROVOD_TORUS_ALLREDUCE", "1"}, {"HOROVOD_TIMELINE", "DYNAMIC"}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->is_hierarchical);
  EXPECT_EQ(made->timeline, "");
  EXPECT_FALSE(with({{"HOROVOD_STALL_CHECK_DISABLE", "1"}})->stall.is_checked);
}

TEST_F(SettingsTest, WhatIsNoValueIsNamed) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"HOROVOD_FUSION_THRESHOLD", "-1"},
                                                        {"HOROVOD_FUSION_THRESHOLD", "99999999999999999999999"},
                                                        {"HOROVOD_CACHE_CAPACITY", "many"},
                                                        {"HOROVOD_CYCLE_TIME", "nan"},
                                                        {"HOROVOD_CYCLE_TIME", "1e300"},
                                                        {"HOROVOD_CYCLE_TIME", "-1"},
                                                        {"HOROVOD_THREAD_AFFINITY", "1,,2"},
                                                        {"HOROVOD_THREAD_AFFINITY", "-1"},
                                                        {"HOROVOD_STALL_CHECK_TIME_SECONDS", "soon"},
                                                        {"HOROVOD_STALL_CHECK_DISABLE", "yes"},
                                                        {"HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "0"}}) {
    const auto made = with({{name, value}});
    ASSERT_FALSE(made.ok()) << name << "=" << value;
    EXPECT_EQ(made.status().code(), base::Code::kInvalidArgument);
    EXPECT_THAT(made.status().message(), HasSubstr(name + "=" + value));
  }
}

}  // namespace
}  // namespace muster::collectives::settings_test
