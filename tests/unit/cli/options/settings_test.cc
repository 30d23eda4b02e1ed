#include "cli/options/settings.h"
#include "cli/options/hvdrun_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::settings_test {
namespace {

using ::testing::HasSubstr;

Setting setting(std::string_view name, std::string value, std::string origin) {
  return {&hvdrun_flags().named(name), std::move(value), origin, origin};
}

std::string show(const Settings& settings) {
  std::string text;
  for (const Setting& entry : settings.entries()) {
    text += fmt::format("{}{}={} ({})", text.empty() ? "" : ", ", entry.flag->name, entry.value, entry.origin);
  }
  return text;
}

Settings layered(const std::vector<std::vector<Setting>>& layers) {
  Settings settings;
  for (const auto& layer : layers) EXPECT_TRUE(settings.add_layer(layer).ok());
  return settings;
}

TEST(Settings, LaterLayersWin) {
  const Settings settings = layered({{setting("timeout", "1s", "site"), setting("wdir", "/a", "site")},
                                     {setting("timeout", "2s", "user")},
                                     {setting("timeout", "3s", "flag")}});
  EXPECT_EQ(show(settings), "wdir=/a (site), timeout=3s (flag)");
  EXPECT_EQ(settings.find("timeout")->value, "3s");
  EXPECT_EQ(settings.find("num-proc"), nullptr);
}

TEST(Settings, TheLastOfOneLayerCounts) {
  EXPECT_EQ(show(layered({{setting("num-proc", "2", "-np"), setting("num-proc", "4", "-n")}})), "num-proc=4 (-n)");
}

TEST(Settings, ReplacesEarlierOptionsThatALaterLayerExcludes) {
  EXPECT_EQ(show(layered({{setting("hosts", "a", "site")}, {setting("hostfile", "f", "flag")}})), "hostfile=f (flag)");
}

TEST(Settings, RefusesALayerThatContradictsItself) {
  Settings settings;
  const auto status = settings.add_layer({setting("hosts", "a", "-H"), setting("hostfile", "f", "--hostfile")});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("-H and --hostfile exclude each other"));
}

TEST(Settings, AddsUpWithinALayerOrOverAllLayers) {
  const Settings settings =
      layered({{setting("env", "A", "site"), setting("network-interfaces", "eth0", "site")},
               {setting("env", "B", "-x"), setting("env", "C", "-x"), setting("network-interfaces", "ib0", "flag"),
                setting("network-interfaces", "ib1", "flag")}});
  EXPECT_EQ(show(settings),
            "env=A (site), env=B (-x), env=C (-x), network-interfaces=ib0 (flag), network-interfaces=ib1 (flag)");
  EXPECT_EQ(settings.all("env").size(), 3u);
}

TEST(Settings, OfTheEnvironmentAreNamedAfterTheirOption) {
  base::Environment environment;
  environment.set("MUSTER_NUM_PROC", "4");
  environment.set("MUSTER_TIMEOUT", "");  // as if it were not there
  environment.set("MUSTER_ENV", "A");     // adds up: not by a variable
  environment.set("MUSTER_HELP", "1");    // no setting
  environment.set("MUSTER_RANK", "0");    // no option
  environment.set("HOROVOD_START_TIMEOUT", "60");
  EXPECT_EQ(show(layered({settings_of(environment, hvdrun_flags())})),
            "num-proc=4 (MUSTER_NUM_PROC), start-timeout=60 (HOROVOD_START_TIMEOUT)");
  environment.set("MUSTER_START_TIMEOUT", "5s");
  EXPECT_EQ(show(layered({settings_of(environment, hvdrun_flags())})),
            "num-proc=4 (MUSTER_NUM_PROC), start-timeout=5s (MUSTER_START_TIMEOUT)");
}

}  // namespace
}  // namespace muster::cli::settings_test
