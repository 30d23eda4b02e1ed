#include "cli/doctor/cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/cleanup_view.h"

namespace muster::cli::cleanup_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

ParsedCleanup parse_words(const Words& words) {
  return parse_cleanup(words, {}, {.build_id = "test", .system_config = "/nonexistent"});
}

TEST(Cleanup, TakesHostsAndItsOwnOptions) {
  const ParsedCleanup parsed = parse_words({"-H", "n1,al@n2", "--job", "abcd", "--dry-run", "--json", "-p", "2222"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.request.job.placement.hosts.size(), 2U);
  EXPECT_EQ(parsed.job, "abcd");
  EXPECT_TRUE(parsed.dry_run);
  EXPECT_TRUE(parsed.json);
  EXPECT_EQ(parsed.options.reach.bootstrap.default_port, 2222);
}

TEST(Cleanup, Mistakes) {
  for (const Words& words : std::vector<Words>{{"n1"}, {"--job", "UPPER"}, {"--job", "abcdefgh2"}, {"--jb", "a"}}) {
    const ParsedCleanup parsed = parse_words(words);
    EXPECT_EQ(parsed.exit_code, 2) << words.front();
    EXPECT_TRUE(parsed.text.starts_with("muster cleanup: ")) << parsed.text;
  }
  EXPECT_THAT(parse_words({"--help"}).text, HasSubstr("Usage: muster cleanup [options]"));
}

v1::CleanupReport host(const std::string& name) {
  v1::CleanupReport report;
  report.set_host(name);
  return report;
}

void add_process(v1::CleanupReport& report, v1::RemainsState state) {
  v1::Remains& remains = *report.add_remains();
  remains.set_job_id("abcdefg2");
  remains.set_kind(v1::REMAINS_KIND_PROCESS);
  remains.set_state(state);
  remains.set_pid(4242);
  remains.set_name("train\x1b");
  remains.set_age_s(75);
  remains.set_found_by("environment");
}

TEST(CleanupView, ATableAndWhatIsNotKnown) {
  v1::CleanupReport first = host("n1");
  add_process(first, v1::REMAINS_STATE_GONE);
  first.add_alive_jobs("livejob2");
  v1::CleanupReport down = host("n2");
  down.set_unreachable("host n2: no route");
  EXPECT_EQ(format_cleanup({first, down}, ""),
            "HOST  JOB       WHAT     PID   NAME       AGE   FOUND BY     STATE\n"
            "n1    abcdefg2  process  4242  train\\x1b  75 s  environment  gone\n"
            "n2: unknown, not clean: host n2: no route\n"
            "2 hosts: 1 ended and gone, 1 unknown, 1 living and not touched\n");
  EXPECT_EQ(format_cleanup({host("n1")}, ""), "1 host: nothing found\n");
}

TEST(CleanupView, AShortTableShowsFirstWhatIsLeft) {
  v1::CleanupReport first = host("n1");
  add_process(first, v1::REMAINS_STATE_GONE);
  add_process(first, v1::REMAINS_STATE_GONE);
  v1::CleanupReport second = host("n2");
  add_process(second, v1::REMAINS_STATE_LEFT);
  EXPECT_EQ(format_cleanup({first, second}, "", 1),
            "HOST  JOB       WHAT     PID   NAME       AGE   FOUND BY     STATE\n"
            "n2    abcdefg2  process  4242  train\\x1b  75 s  environment  LEFT\n"
            "and 2 more strays: 2 gone; add '| less' to see them\n"
            "2 hosts: 2 ended and gone, 1 LEFT\n");
}

TEST(CleanupView, ALivingJobIsNamedWhenAskedFor) {
  v1::CleanupReport report = host("n1");
  report.add_alive_jobs("livejob2");
  EXPECT_THAT(format_cleanup({report}, "live"), HasSubstr("n1: job livejob2 lives: end it with its hvdrun"));
  EXPECT_EQ(cleanup_exit_code({report}, "live"), 1);
  EXPECT_EQ(cleanup_exit_code({report}, ""), 0);
}

TEST(CleanupView, ExitCodes) {
  v1::CleanupReport down = host("n2");
  down.set_unreachable("no route");
  v1::CleanupReport waits = host("n1");
  waits.add_waiting_jobs()->set_job_id("abcdefg2");
  v1::CleanupReport cut = host("n1");
  cut.set_left_out(3);
  EXPECT_EQ(cleanup_exit_code({cut}, ""), 0);
  cut.set_left_out_not_gone(1);
  EXPECT_EQ(cleanup_exit_code({cut}, ""), 1);
  EXPECT_EQ(cleanup_exit_code({host("n1")}, ""), 0);
  EXPECT_EQ(cleanup_exit_code({host("n1"), down}, ""), 1);
  EXPECT_EQ(cleanup_exit_code({down}, ""), 125);
  EXPECT_EQ(cleanup_exit_code({waits}, ""), 1);
  for (const auto& [state, code] : std::vector<std::pair<v1::RemainsState, int>>{
           {v1::REMAINS_STATE_FOUND, 1}, {v1::REMAINS_STATE_LEFT, 1}, {v1::REMAINS_STATE_GONE, 0}}) {
    v1::CleanupReport report = host("n1");
    add_process(report, state);
    EXPECT_EQ(cleanup_exit_code({report}, ""), code);
  }
}

}  // namespace
}  // namespace muster::cli::cleanup_test
