#include "cli/view/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::event_file_test {
namespace {

using ::testing::HasSubstr;

// Records the calls that reach the view.
class Recorder final : public launcherd::JobObserver {
 public:
  void on_progress(int, int, const std::vector<std::string>&) override { seen += "progress "; }
  void on_running() override { seen += "running "; }
  void on_note(const std::string&) override { seen += "note "; }
  void on_warning(const std::string& line) override { seen += "warning:" + line; }
  void on_root_cause(const model::RankEnd&) override { seen += "root "; }
  void on_finished(const launcherd::JobOutcome&) override { seen += "finished "; }

  std::string seen;
};

class EventFileTest : public ::testing::Test {
 protected:
  testing_support::TempDir directory_;
  base::FakeClock clock_;
  Recorder view_;
  const model::Placement placement_ = *model::place({.np = 1});
};

TEST_F(EventFileTest, WritesNumberedLinesFromBeginningToEnd) {
  directory_.write("events", "of an earlier job\n");
  auto file = EventFile::open(directory_ / "events", "abcdefgh", placement_, clock_, &view_);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->on_event(model::RankUp{0, 42});
  launcherd::JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.root = 0;
  outcome.ends.resize(1);
  outcome.ends[0].exit_code = 3;
  outcome.stderr_tail = "first\n\nlast\n";
  outcome.unclean = {{"n2", "n2: not reachable"}};
  outcome.alike_ranks = {2, 3};
  (*file)->on_finished(outcome);
  const std::string text = directory_.read("events");
  const auto lines = base::split(text, '\n');
  ASSERT_EQ(lines.size(), 4u) << text;  // the last one is empty
  for (std::size_t i = 0; i < 3; ++i) EXPECT_THAT(lines[i], HasSubstr(fmt::format("{{\"sequence\":\"{}\"", i + 1)));
  EXPECT_THAT(lines[0], HasSubstr("\"job_starting\":{\"job_id\":\"abcdefgh\""));
  EXPECT_THAT(lines[1], HasSubstr("\"rank_up\":{\"rank\":0,\"pid\":\"42\"}"));
  EXPECT_THAT(lines[2], HasSubstr("\"exit_code\":3,\"root_cause_rank\":0"));
  EXPECT_THAT(lines[2],
              HasSubstr("\"stderr_tail\":[\"first\",\"last\"],\"strays_killed\":0,\"unclean_hosts\":[\"n2\"]"));
  EXPECT_THAT(lines[2], HasSubstr("\"alike_ranks\":[2,3]"));
  EXPECT_EQ(view_.seen, "finished ");
}

TEST_F(EventFileTest, PassesEverythingOn) {
  auto file = EventFile::open(directory_ / "events", "abcdefgh", placement_, clock_, &view_);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->on_progress(1, 2, {});
  (*file)->on_running();
  (*file)->on_note("n");
  (*file)->on_root_cause({});
  (*file)->on_warning("w");
  EXPECT_EQ(view_.seen, "progress running note root warning:w");
}

TEST_F(EventFileTest, AFullDiskIsToldOnce) {
  auto file = EventFile::open("/dev/full", "abcdefgh", placement_, clock_, &view_);
  ASSERT_TRUE(file.ok()) << file.status();
  (*file)->on_event(model::RankUp{0, 42});
  EXPECT_THAT(view_.seen, HasSubstr("--json-events: /dev/full: "));
  EXPECT_EQ(view_.seen.find("warning", 1), std::string::npos) << view_.seen;
}

TEST_F(EventFileTest, AFileThatCannotBeMadeIsAnError) {
  const auto file = EventFile::open(directory_ / "none/events", "abcdefgh", placement_, clock_, &view_);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("--json-events: open "));
}

}  // namespace
}  // namespace muster::cli::event_file_test
