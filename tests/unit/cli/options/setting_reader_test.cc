#include "cli/options/setting_reader.h"
#include "cli/options/hvdrun_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::setting_reader_test {
namespace {

using std::chrono::milliseconds;

Settings one(std::string_view name, std::string value) {
  Settings settings;
  EXPECT_TRUE(settings.add_layer({{&hvdrun_flags().named(name), std::move(value), "here", "here"}}).ok());
  return settings;
}

TEST(SettingReader, LeavesTargetsOfUnsetOptionsUnchanged) {
  const Settings none;
  SettingReader read(none);
  int port = 7;
  bool on = true;
  std::string word = "x";
  std::optional<double> real = 1.5;
  read.number("ssh-port", 1, 9, port);
  read.toggle("verbose", on);
  read.word("contain", word);
  read.real("cycle-time-ms", 2, real);
  EXPECT_TRUE(read.status().ok());
  EXPECT_EQ(port, 7);
  EXPECT_TRUE(on);
  EXPECT_EQ(word, "x");
  EXPECT_EQ(real, 1.5);
}

TEST(SettingReader, KeepsTheFirstMistakeAndReadsNoFurther) {
  Settings settings = one("ssh-port", "x");
  ASSERT_TRUE(settings.add_layer({{&hvdrun_flags().named("wdir"), "/w", "-", "-"}}).ok());
  SettingReader read(settings);
  int port = 7;
  std::string directory;
  read.number("ssh-port", 1, 9, port);
  read.text("wdir", directory);
  EXPECT_EQ(read.status().message(), "here must be a number from 1 to 9, not 'x'");
  EXPECT_EQ(port, 7);
  EXPECT_EQ(directory, "");
}

TEST(SettingReader, RealNumbers) {
  const auto read = [](const std::string& text) {
    const Settings settings = one("cycle-time-ms", text);
    SettingReader reader(settings);
    std::optional<double> value;
    reader.real("cycle-time-ms", 100, value);
    EXPECT_EQ(reader.status().ok(), value.has_value()) << text;
    return value;
  };
  EXPECT_EQ(read("0"), 0.0);
  EXPECT_EQ(read("3.5"), 3.5);
  EXPECT_EQ(read("1e-3"), 0.001);
  EXPECT_EQ(read("100"), 100.0);
  for (const char* bad : {"", "-1", "-0", "101", "x", "1 ", "0x1", "nan", "inf", "1,5", "+1"}) {
    EXPECT_EQ(read(bad), std::nullopt) << bad;
  }
}

TEST(SettingReader, ChoicesAreTheTables) {
  const Settings good = one("contain", "pidns");
  const Settings bad = one("contain", "docker");
  std::string word;
  SettingReader read_good(good);
  read_good.word("contain", word);
  EXPECT_EQ(word, "pidns");
  SettingReader read_bad(bad);
  read_bad.word("contain", word);
  EXPECT_EQ(read_bad.status().message(), "here must be one of auto, cgroup, pidns, subreaper, not 'docker'");
}

TEST(ParseToggle, TakesTheWordsOfYamlAndOfShells) {
  for (const char* text : {"true", "True", "YES", "on", "1"}) EXPECT_EQ(parse_toggle(text), true) << text;
  for (const char* text : {"false", "False", "no", "OFF", "0"}) EXPECT_EQ(parse_toggle(text), false) << text;
  for (const char* text : {"", "2", "y", "enabled", "true "}) EXPECT_EQ(parse_toggle(text), std::nullopt) << text;
}

TEST(ParseDuration, ReadsUnits) {
  const std::vector<std::pair<std::string, long>> table = {{"30", 30'000},
                                                           {"30s", 30'000},
                                                           {"5m", 300'000},
                                                           {"1.5h", 5'400'000},
                                                           {"500ms", 500},
                                                           {"0", 0},
                                                           {"0.25", 250},
                                                           {"0.1s", 100},
                                                           {"1.001s", 1001},
                                                           {"0.0001s", 1},
                                                           {"0.3m", 18'000},
                                                           {"2.5ms", 3},
                                                           {"007s", 7'000},
                                                           {"0.123456789012345s", 124},
                                                           {"87840h", 87'840L * 3'600'000}};
  for (const auto& [text, expected] : table) {
    const auto read = parse_duration(text);
    ASSERT_TRUE(read.ok()) << text << ": " << read.status();
    EXPECT_EQ(read->count(), expected) << text;
  }
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text : {"",
                           "-3",
                           "s",
                           "ms",
                           "1.",
                           ".",
                           ".5",
                           "1.2.3",
                           "5 m",
                           " 5",
                           "5x",
                           "5min",
                           "5M",
                           "1e3",
                           "inf",
                           "nan",
                           "0x10",
                           "+5",
                           "87841h",
                           "99999999999999999999",
                           "9223372036854775807h",
                           "1,5s"}) {
    EXPECT_FALSE(parse_duration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace muster::cli::setting_reader_test
