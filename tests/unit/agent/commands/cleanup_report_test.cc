// The answer of `muster-agent --cleanup`: its words, and that it always fits.
#include "agent/commands/cleanup_report.h"

#include <gtest/gtest.h>

#include "proto/frame.h"

namespace muster::agent::cleanup_report_test {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t kKeptByABootstrap = 1u << 20;

TEST(CleanupReport, Options) {
  const auto parsed = parse_cleanup({"--dry-run", "--job", "abc", "--session-root", "/x"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->dry_run);
  EXPECT_EQ(parsed->scan.job_prefix, "abc");
  EXPECT_EQ(parsed->scan.session_root, "/x");
  EXPECT_TRUE(parse_cleanup({"--job", "abcdefg2"}).ok());
  for (const Words& words : std::vector<Words>{
           {"--job", "abc"}, {"--job", "../x", "--dry-run"}, {"--job"}, {"--all"}, {"--job", "", "--dry-run"}}) {
    EXPECT_EQ(parse_cleanup(words).status().code(), base::Code::kInvalidArgument) << words.front();
  }
}

TEST(CleanupReport, TooMuchIsCutAndCountedAndWhatIsLeftComesFirst) {
  CleanupReport report;
  Remains remains{.kind = RemainsKind::kSession, .job_id = "abcdefg2", .name = std::string(4000, 'x')};
  for (int i = 0; i < 1000; ++i) {
    remains.state = i < 990 ? RemainsState::kGone : RemainsState::kLeft;
    remains.problem = std::string(2000, 'p');
    report.remains.push_back(remains);
  }
  report.alive_jobs.assign(10'000, "livejob2");
  report.waiting_jobs.assign(10'000, {"abcdefg2", std::chrono::hours(1)});
  report.problems.assign(100, std::string(2000, 'q'));
  const v1::CleanupReport message = to_message(report);
  EXPECT_LT(proto::frame_message(message)->size() + 200, kKeptByABootstrap);
  EXPECT_EQ(message.remains_size() + message.left_out(), 1000);
  EXPECT_EQ(message.left_out_not_gone(), 0);
  EXPECT_EQ(message.remains(9).state(), v1::REMAINS_STATE_LEFT);
  EXPECT_EQ(message.remains(10).state(), v1::REMAINS_STATE_GONE);
}

}  // namespace
}  // namespace muster::agent::cleanup_report_test
