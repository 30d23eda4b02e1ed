#include "cli/options/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::config_file_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string show(const std::vector<Setting>& layer) {
  std::vector<std::string> shown;
  for (const Setting& setting : layer) {
    shown.push_back(fmt::format("{}={} ({})", setting.flag->name, setting.value, setting.origin));
  }
  return base::join(shown, ", ");
}

std::string read(std::string_view text) {
  const auto layer = parse_config(text, "c.yaml", hvdrun_flags());
  EXPECT_TRUE(layer.ok()) << layer.status();
  return layer.ok() ? show(*layer) : "";
}

// The file that horovodrun's documentation shows, with every key that it knows.
constexpr std::string_view kHorovodsFile = R"(
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 3.5
  cache_capacity: 2048
  hierarchical_allreduce: true
  hierarchical_allgather: no
  torus_allreduce: False
autotune:
  enabled: true
  log_file: horovod_autotune_log.txt
  warmup_samples: 5
  steps_per_sample: 20
  bayes_opt_max_samples: 50
  gaussian_process_noise: 0.9
timeline:
  filename: timeline.json
  mark_cycles: true
stall_check:
  enabled: false
  warning_time_seconds: 120
  shutdown_time_seconds: 240
library_options:
  mpi_threads_disable: true
  num_nccl_streams: 2
  thread_affinity: 1
  gloo_timeout_seconds: 60
logging:
  level: INFO
  with_timestamp: false
)";

TEST(ParseConfig, ReadsHorovodrunsKeys) {
  EXPECT_EQ(read("params: {fusion_threshold_mb: 32, cycle_time_ms: 3.5}\nlogging:\n  level: INFO\n"),
            "fusion-threshold-mb=32 (c.yaml:1), cycle-time-ms=3.5 (c.yaml:1), log-level=INFO (c.yaml:3)");
  EXPECT_EQ(read("controller: gloo\n"), "controller=gloo (c.yaml:1)");
}

TEST(ParseConfig, LeavesLaunchersSectionAlone) {
  EXPECT_EQ(read("launcherd: {http: '127.0.0.1:7480', listen: [unix:/a]}\nmuster: {num_proc: 4}\n"),
            "num-proc=4 (c.yaml:2)");
}

TEST(ParseConfig, ReadsMustersKeysUnderMuster) {
  EXPECT_EQ(read("muster:\n  num_proc: 4\n  hosts: [n1:2, n2:2]\n  env: [A, B=1]\n  verbose: yes\n"
                 "  network_interfaces: [ib0, eth0]\n  blacklist_cooldown_range: [1, 5]\n"),
            "num-proc=4 (c.yaml:2), hosts=n1:2,n2:2 (c.yaml:3), env=A (c.yaml:4), env=B=1 (c.yaml:4), "
            "verbose=yes (c.yaml:5), network-interfaces=ib0 (c.yaml:6), network-interfaces=eth0 (c.yaml:6), "
            "blacklist-cooldown-range=1 5 (c.yaml:7)");
  EXPECT_EQ(read("muster:\n  hosts: n1:2,n2\n  env: A\n"), "hosts=n1:2,n2 (c.yaml:2), env=A (c.yaml:3)");
}

TEST(ParseConfig, SetsNothingForAnEmptyFile) {
  for (const char* text :
       {"", "# comment\n", "muster:\n", "params: ~\nmuster: {}\n", "muster:\n  timeout:\n", "muster:\n  hosts: []\n"}) {
    EXPECT_EQ(read(text), "") << text;
  }
}

TEST(ParseConfig, ReportsMistakesWithFileLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"params:\n  fusion_treshold_mb: 1\n",
       "c.yaml:2:3: unknown key 'fusion_treshold_mb' in params; did you mean fusion_threshold_mb?"},
      {"parms:\n  cache_capacity: 1\n", "c.yaml:1:1: unknown key 'parms'; did you mean params?"},
      {"timeout: 5m\n", "c.yaml:1:1: unknown key 'timeout'; write muster.timeout"},
      {"muster:\n  cache_capacity: 1\n", "c.yaml:2:3: unknown key 'cache_capacity' in muster; write params.cache"},
      {"muster:\n  num-proc: 4\n", "c.yaml:2:3: unknown key 'num-proc' in muster; did you mean num_proc?"},
      {"muster:\n  help: true\n", "c.yaml:2:3: unknown key 'help' in muster"},
      {"muster:\n  config_file: x\n", "c.yaml:2:3: unknown key 'config_file' in muster"},
      {"\"a\\nb\": 1\n", "unknown key 'a\\x0ab'"},
      {"params: 3\n", "c.yaml:1:1: params holds keys, not a value"},
      {"controller: {a: 1}\n", "c.yaml:1:1: controller takes a value, not keys"},
      {"muster:\n  timeout: [1]\n", "c.yaml:2:3: muster.timeout takes one value, not a list"},
      {"muster:\n  env: [[A]]\n", "c.yaml:2:9: muster.env takes a list of words"},
      {"muster:\n  hosts: [a, ~]\n", "muster.hosts takes a list of words"},
      {"muster:\n  wdir: ''\n", "c.yaml:2:3: muster.wdir needs a value that is not empty"},
      {"muster:\n  wdir: \"a\\0b\"\n", "c.yaml:2:3: the value of muster.wdir holds a NUL byte"},
      {"- a\n", "c.yaml:1:1: keys are expected"},
      {"just words\n", "c.yaml:1:1: keys are expected"},
      {"muster: {num_proc: 1, num_proc: 2}\n", "the key 'num_proc' is given twice"},
      {"a: [\n", "c.yaml:"},
  };
  for (const auto& [text, expected] : table) {
    const auto layer = parse_config(text, "c.yaml", hvdrun_flags());
    ASSERT_FALSE(layer.ok()) << text << " -> " << show(*layer);
    EXPECT_THAT(layer.status().message(), HasSubstr(expected));
    EXPECT_EQ(layer.status().message().find('\n'), std::string::npos);
  }
}

TEST(ParseConfig, IgnoresUnknownKeysOfHorovodrunWithANote) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"logging:\n  hide_timestamp: true\n", "c.yaml:2:3: unknown key 'hide_timestamp' in logging"},
      {"parms:\n  cache_capacity: 1\n", "c.yaml:1:1: unknown key 'parms'; did you mean params?"},
      {"elastic: [1, {a: 2}]\n", "c.yaml:1:1: unknown key 'elastic'"},
  };
  for (const auto& [text, expected] : table) {
    std::vector<std::string> ignored;
    const auto layer = parse_config(text + "params: {cache_capacity: 7}\n", "c.yaml", hvdrun_flags(), false, &ignored);
    ASSERT_TRUE(layer.ok()) << layer.status();
    EXPECT_THAT(show(*layer), StartsWith("cache-capacity=7"));
    ASSERT_EQ(ignored.size(), 1u) << text;
    EXPECT_THAT(ignored.front(), StartsWith(expected));
    EXPECT_THAT(ignored.front(), EndsWith("; it is ignored, as by horovodrun"));
  }
  for (const char* ours : {"muster:\n  cach: 1\n", "timeout: 5m\n", "hosts: n1\n", "params: 3\n"}) {
    std::vector<std::string> ignored;
    EXPECT_FALSE(parse_config(ours, "c.yaml", hvdrun_flags(), false, &ignored).ok()) << ours;
    EXPECT_THAT(ignored, testing::IsEmpty());
  }
}

// Files in a directory of the test's own; HOME is there too.
class ConfigSources : public ::testing::Test {
 protected:
  ConfigSources() { environment_.set("HOME", directory_.path()); }

  std::string write(const std::string& name, std::string_view content) const { return directory_.write(name, content); }

  ParsedHvdrun parse(const Words& words) const {
    return parse_hvdrun(words, environment_, {.build_id = "b", .system_config = directory_ / "system.yaml"});
  }

  testing_support::TempDir directory_;
  base::Environment environment_;
};

TEST_F(ConfigSources, NeedsNoFile) {
  EXPECT_EQ(cli::show(parse({"p"})), "");
}

TEST_F(ConfigSources, LetsLaterSourcesWin) {
  write("system.yaml", "muster: {num_proc: 1, timeout: 1s, kill_grace: 1s, wdir: /system, ranks_per_node: 1}");
  EXPECT_EQ(cli::show(parse({"p"})), "np=1 per_node=1 wdir=/system timeout=1000ms grace=1000ms");
  write(".config/muster/config.yaml", "muster: {num_proc: 2, timeout: 2s, kill_grace: 2s, wdir: /user}");
  EXPECT_EQ(cli::show(parse({"p"})), "np=2 per_node=1 wdir=/user timeout=2000ms grace=2000ms");
  const std::string named = write("named.yaml", "muster: {num_proc: 3, timeout: 3s, kill_grace: 3s}");
  EXPECT_EQ(cli::show(parse({"--config-file", named, "p"})), "np=3 per_node=1 wdir=/user timeout=3000ms grace=3000ms");
  environment_.set("MUSTER_NUM_PROC", "4");
  environment_.set("MUSTER_TIMEOUT", "4s");
  EXPECT_EQ(cli::show(parse({"--config-file", named, "p"})), "np=4 per_node=1 wdir=/user timeout=4000ms grace=3000ms");
  EXPECT_EQ(cli::show(parse({"--config-file", named, "-np", "5", "p"})),
            "np=5 per_node=1 wdir=/user timeout=4000ms grace=3000ms");
}

TEST_F(ConfigSources, ReadsTheFileOfTheVariableUnlessTheFlagNamesOne) {
  environment_.set("MUSTER_CONFIG_FILE", write("variable.yaml", "muster: {num_proc: 3}"));
  EXPECT_EQ(cli::show(parse({"p"})), "np=3");
  EXPECT_EQ(cli::show(parse({"--config-file", write("flag.yaml", "muster: {num_proc: 4}"), "p"})), "np=4");
}

TEST_F(ConfigSources, RefusesANamedFileThatIsMissingOrWrong) {
  const ParsedHvdrun missing = parse({"--config-file", "/no/such/file", "p"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.text, HasSubstr("the configuration cannot be read: open /no/such/file"));
  const std::string wrong = write("wrong.yaml", "muster:\n  timeout: soon\n");
  EXPECT_EQ(
      parse({"--config-file", wrong, "p"}).text,
      fmt::format("hvdrun: {}:2:3: muster.timeout: 'soon' is not a time: write it as 30, 30s, 5m, 1.5h or 500ms\n",
                  wrong));
  const std::string hosts = write("hosts.yaml", "muster:\n  hosts: [a, -b]\n");
  EXPECT_THAT(parse({"--config-file", hosts, "p"}).text,
              StartsWith(fmt::format("hvdrun: {}:2:3: muster.hosts: '-b' is not a host name", hosts)));
  const std::string both = write("both.yaml", "muster:\n  hosts: a\n  hostfile: f\n");
  EXPECT_THAT(parse({"--config-file", both, "p"}).text, HasSubstr("exclude each other"));
  const std::string mpi = write("mpi.yaml", "controller: mpi\n");
  EXPECT_THAT(parse({"--config-file", mpi, "p"}).text,
              HasSubstr(":1:1: controller: hvdrun does not support Horovod's controller mpi yet"));
  EXPECT_EQ(cli::show(parse({"--config-file", mpi, "--gloo", "p"})), "");
}

TEST_F(ConfigSources, OnlyANamedFileMayHaveUnknownKeys) {
  const char* const unknown = "logging:\n  hide_timestamp: true\n  level: INFO\n";
  const std::string named = write("named.yaml", unknown);
  const ParsedHvdrun parsed = parse({"--config-file", named, "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_THAT(parsed.options.output.notes,
              testing::ElementsAre(StartsWith(named + ":2:3: unknown key 'hide_timestamp'")));
  EXPECT_THAT(parsed.options.request.job.environment.named, testing::ElementsAre("HOROVOD_LOG_LEVEL=INFO"));
  write("system.yaml", unknown);
  EXPECT_THAT(parse({"p"}).text, HasSubstr("system.yaml:2:3: unknown key 'hide_timestamp'"));
}

TEST_F(ConfigSources, HorovodsFileBecomesItsVariables) {
  const ParsedHvdrun parsed = parse({"--config-file", write("hvd.yaml", kHorovodsFile), "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(base::join(parsed.options.request.job.environment.named, " "),
            "HOROVOD_FUSION_THRESHOLD=33554432 HOROVOD_CYCLE_TIME=3.5 HOROVOD_CACHE_CAPACITY=2048 "
            "HOROVOD_HIERARCHICAL_ALLREDUCE=1 HOROVOD_HIERARCHICAL_ALLGATHER=0 HOROVOD_TORUS_ALLREDUCE=0 "
            "HOROVOD_AUTOTUNE=1 HOROVOD_AUTOTUNE_LOG=horovod_autotune_log.txt HOROVOD_AUTOTUNE_WARMUP_SAMPLES=5 "
            "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=20 HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=50 "
            "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.9 HOROVOD_TIMELINE=timeline.json "
            "HOROVOD_TIMELINE_MARK_CYCLES=1 HOROVOD_STALL_CHECK_DISABLE=1 HOROVOD_STALL_CHECK_TIME_SECONDS=120 "
            "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=240 HOROVOD_MPI_THREADS_DISABLE=1 HOROVOD_NUM_NCCL_STREAMS=2 "
            "HOROVOD_THREAD_AFFINITY=1 HOROVOD_GLOO_TIMEOUT_SECONDS=60 HOROVOD_LOG_LEVEL=INFO "
            "HOROVOD_LOG_HIDE_TIME=1");
  EXPECT_THAT(parse({"--config-file", write("hvd.yaml", kHorovodsFile), "--fusion-threshold-mb", "1", "p"})
                  .options.request.job.environment.named.front(),
              "HOROVOD_FUSION_THRESHOLD=1048576");
}

TEST_F(ConfigSources, PrintConfigShowsValueAndOrigin) {
  write("system.yaml", "params: {cache_capacity: 7}\nmuster:\n  env: [SITE=secret]\n  wdir: 'a \"b\"'\n");
  environment_.set("MUSTER_TIMEOUT", "2h");
  const ParsedHvdrun parsed = parse({"-np", "4", "-x", "TOKEN=secret", "--print-config"});
  ASSERT_EQ(parsed.exit_code, 0) << parsed.text;
  const std::string system = directory_ / "system.yaml";
  for (const std::string& line :
       {std::string("controller: gloo"), std::string("# default"), std::string("num_proc: 4"), std::string("# -np\n"),
        std::string("timeout: 2h"), std::string("# MUSTER_TIMEOUT\n"), std::string("cache_capacity: 7"),
        "# " + system + ":1\n", std::string("wdir: \"a \\\"b\\\"\""), std::string("oversubscribe: ~"),
        std::string("# not set\n"), "# env: SITE (" + system + ":3), TOKEN (-x); values are not shown\n"}) {
    EXPECT_THAT(parsed.text, HasSubstr(line));
  }
  EXPECT_EQ(parsed.text.find("secret"), std::string::npos);
  EXPECT_THAT(parse({"--timeout", "x", "--print-config"}).text, StartsWith("hvdrun: --timeout: "));
}

// What is printed, read as a file, has the same effect.
TEST_F(ConfigSources, PrintedConfigIsAConfig) {
  const Words words = {"-np",
                       "4",
                       "-H",
                       "n1:2,[fe80::1]:2",
                       "--wdir",
                       "a: b # \x01\\ \"q\"",
                       "--no-stall-check",
                       "--cycle-time-ms",
                       "3",
                       "--network-interfaces",
                       "ib0",
                       "--network-interface",
                       "eth0",
                       "--on-exit",
                       "wait",
                       "--log-level",
                       "INFO",
                       "--timeout",
                       "2h"};
  Words print = words;
  print.emplace_back("--print-config");
  const std::string file = write("printed.yaml", parse(print).text);
  Words run = words;
  run.emplace_back("p");
  const ParsedHvdrun again = parse({"--config-file", file, "p"});
  ASSERT_FALSE(again.exit_code) << again.text;
  EXPECT_EQ(cli::show(again), cli::show(parse(run)));
}

}  // namespace
}  // namespace muster::cli::config_file_test
