// What is exported, and in which words: horovod_tuning.h. The spellings are in spellings_test.cc.
#include "cli/options/horovod_tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::horovod_tuning_test {
namespace {

using ::testing::HasSubstr;

struct Result {
  std::string variables;
  base::Status status;
};

Result tune(const std::vector<std::pair<std::string_view, std::string>>& given) {
  Settings settings;
  std::vector<Setting> layer;
  for (const auto& [name, value] : given) {
    const std::string label = fmt::format("--{}", name);
    layer.push_back({&hvdrun_flags().named(name), value, label, label});
  }
  EXPECT_TRUE(settings.add_layer(layer).ok());
  SettingReader read(settings);
  const auto variables = horovod_tuning(read);
  return {base::join(variables, " "), read.status()};
}

TEST(HorovodTuning, ExportsNothingForOptionsThatAreNotSet) {
  EXPECT_EQ(tune({}).variables, "");
}

TEST(HorovodTuning, ConversionsAreHorovodruns) {
  EXPECT_EQ(tune({{"fusion-threshold-mb", "128"}}).variables, "HOROVOD_FUSION_THRESHOLD=134217728");
  EXPECT_EQ(tune({{"fusion-threshold-mb", "8796093022207"}}).variables, "HOROVOD_FUSION_THRESHOLD=9223372036853727232");
  const std::vector<std::pair<std::string, std::string>> floats = {
      {"1", "1.0"}, {"0", "0.0"}, {"2.50", "2.5"}, {"0.1", "0.1"}, {"1e-5", "1e-05"}, {"1000000", "1000000.0"}};
  for (const auto& [typed, exported] : floats) {
    EXPECT_EQ(tune({{"cycle-time-ms", typed}}).variables, "HOROVOD_CYCLE_TIME=" + exported);
  }
}

TEST(HorovodTuning, ExportsAutotuneOptionsOnlyWithAutotune) {
  EXPECT_EQ(tune({{"autotune", "false"}, {"autotune-warmup-samples", "3"}}).variables, "");
  EXPECT_EQ(tune({{"autotune", "yes"}, {"autotune-gaussian-process-noise", "0.8"}}).variables,
            "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.8");
}

TEST(HorovodTuning, ReportsMistakesInOptionsThatAreNotExported) {
  const std::vector<std::pair<std::string_view, std::string>> mistakes = {
      {"fusion-threshold-mb", "-1"},
      {"fusion-threshold-mb", "8796093022208"},
      {"fusion-threshold-mb", "1.5"},
      {"cycle-time-ms", "-0.5"},
      {"cache-capacity", "-1"},
      {"cache-capacity", "2147483648"},
      {"autotune-warmup-samples", "-1"},
      {"autotune-steps-per-sample", "x"},
      {"autotune-bayes-opt-max-samples", ""},
      {"autotune-gaussian-process-noise", "1.01"},
      {"autotune-gaussian-process-noise", "-0.1"},
      {"stall-check-warning-time-seconds", "-1"},
      {"stall-check-shutdown-time-seconds", "-1"},
      {"num-nccl-streams", "-1"},
      {"thread-affinity", "-1"},
      {"gloo-timeout-seconds", "-1"},
      {"log-level", "debug"},
      {"hierarchical-allreduce", "maybe"},
  };
  for (const auto& [name, value] : mistakes) {
    const Result result = tune({{name, value}});
    ASSERT_FALSE(result.status.ok()) << name << "=" << value;
    EXPECT_THAT(result.status.message(), HasSubstr(fmt::format("--{} must be", name)));
  }
  EXPECT_THAT(tune({{"autotune-gaussian-process-noise", "2"}}).status.message(),
              HasSubstr("must be a number from 0 to 1, not '2'"));
}

}  // namespace
}  // namespace muster::cli::horovod_tuning_test
