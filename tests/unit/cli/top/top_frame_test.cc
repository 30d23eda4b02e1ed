#include "cli/top/top_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/top/cell_text.h"
#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::top_frame_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::kTopTime;
using testing_support::press;
using testing_support::screen_text;
using testing_support::top_answer;
using testing_support::top_job;
using testing_support::top_lateness;
using testing_support::top_state;
using testing_support::type;

TEST(TopFrame, JobsAndHostsAreOnOneScreen) {
  const std::string text = screen_text(top_state(500, 64, 34, 100));
  EXPECT_THAT(text, HasSubstr("500 running, 0 waiting"));
  EXPECT_THAT(text, HasSubstr("128/256 slots on 64 hosts"));
  EXPECT_THAT(text, HasSubstr(" jobs 1-14 of 500, by state"));
  EXPECT_THAT(text, HasSubstr(" hosts 1-14 of 64, by launcherd's list"));
  EXPECT_THAT(text, HasSubstr("j13"));
  EXPECT_THAT(text, HasSubstr("n13"));
  EXPECT_THAT(text, HasSubstr("? help  Tab table"));
}

TEST(TopFrame, NoLineIsWiderThanTheScreen) {
  for (const int columns : {1, 2, 10, 40, 41, 80, 81, 200}) {
    for (const int lines : {1, 2, 5, 10, 24, 60}) {
      const TopFrame frame = frame_of(top_state(30, 30, lines, columns));
      ASSERT_EQ(std::ssize(frame.lines), lines);
      for (const StyledLine& line : frame.lines) EXPECT_LE(cells_in(text_of(line)), columns) << text_of(line);
    }
  }
}

TEST(TopFrame, FortyColumnsAndTenLinesShowBothTables) {
  const std::string text = screen_text(top_state(3, 3, 10, 40));
  EXPECT_THAT(text, HasSubstr("3 running, 0 waiting"));
  EXPECT_THAT(text, HasSubstr("j0"));
  EXPECT_THAT(text, HasSubstr("RUNNING"));
  EXPECT_THAT(text, HasSubstr("n0"));
  EXPECT_THAT(text, HasSubstr("2/4"));
}

TEST(TopFrame, OnlyTheActiveTableHasASelection) {
  TopState state = top_state(3, 3, 24, 80);
  const auto selected = [](const TopState& shown) {
    std::vector<std::string> texts;
    for (const StyledLine& line : frame_of(shown).lines) {
      if (line.is_selected) texts.push_back(text_of(line).substr(0, 2));
    }
    return texts;
  };
  EXPECT_EQ(selected(state), std::vector<std::string>{"j0"});
  press(state, TopKey::kTab);
  press(state, TopKey::kDown);
  EXPECT_EQ(selected(state), std::vector<std::string>{"n1"});
}

TEST(TopFrame, AProblemIsShownAboveTheTables) {
  TopState state = top_state(3, 3);
  state.take({.query = state.query(), .problem = "no launcherd answers at x\x1b", .at = kTopTime});
  const TopFrame frame = frame_of(state);
  EXPECT_EQ(text_of(frame.lines[1]), "no launcherd answers at x\\x1b; asking again");
  EXPECT_EQ(frame.lines[1].parts.front().style, TextStyle::kBad);
  EXPECT_THAT(screen_text(state), HasSubstr("j0"));
}

TEST(TopFrame, ATypedFilterHasACursor) {
  TopState state = top_state(3, 3, 24, 20);
  EXPECT_EQ(frame_of(state).cursor_column, std::nullopt);
  type(state, "/abc");
  EXPECT_EQ(frame_of(state).cursor_column, 4);
  EXPECT_THAT(text_of(frame_of(state).lines.back()), ::testing::StartsWith("/abc"));
  const std::string long_text = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxend";
  type(state, long_text);
  EXPECT_EQ(frame_of(state).cursor_column, 19);
  EXPECT_THAT(text_of(frame_of(state).lines.back()), HasSubstr("xend"));
}

TEST(TopFrame, TheTitleNamesFilterAndOrder) {
  TopState state = top_state(3, 3);
  type(state, "sr/night");
  press(state, TopKey::kEnter);
  EXPECT_THAT(screen_text(state), HasSubstr("by newest first, reversed, filter 'night'"));
}

TEST(TopFrame, AJobWithItsRanks) {
  TopState state = top_state(3, 3);
  press(state, TopKey::kEnter);
  EXPECT_THAT(screen_text(state), HasSubstr("job j0: waiting for the answer"));
  TopAnswer answer = top_answer(state, 3, 3);
  answer.job = top_job("j0", v1::JOB_STATE_RUNNING, 2);
  for (int rank = 0; rank < 2; ++rank) {
    v1::RankStatus* const status = answer.job->add_ranks();
    status->set_rank(rank);
    status->set_host(rank == 0 ? "n0" : "n1");
    status->set_state(v1::RANK_STATE_RUNNING);
    status->set_pid(100 + rank);
  }
  answer.job->mutable_hang()->set_cause("rank 1 sleeps");
  *answer.job->add_late() = top_lateness(1, "n1");
  state.take(answer);
  const std::string text = screen_text(state);
  EXPECT_THAT(text, HasSubstr("seems to hang: rank 1 sleeps\n"));
  EXPECT_THAT(text, HasSubstr("rank  host  pid  score    late  state"));
  EXPECT_THAT(text, HasSubstr("   1  n1    101   0.10  +12 ms  running"));
  EXPECT_THAT(text, Not(HasSubstr("no ranks")));
}

TEST(TopFrame, AHostWithItsJobs) {
  TopState state = top_state(3, 3);
  press(state, TopKey::kTab);
  press(state, TopKey::kEnter);
  EXPECT_THAT(screen_text(state), HasSubstr("no jobs"));
  TopAnswer answer = top_answer(state, 3, 3);
  answer.host_jobs = {top_job("k7")};
  state.take(answer);
  EXPECT_THAT(screen_text(state), HasSubstr("host n0: agent up, 2/4 slots used"));
  EXPECT_THAT(screen_text(state), HasSubstr("k7"));
}

TEST(TopFrame, TheHostOfALateRankIsMarked) {
  TopState state = top_state(1, 3, 24, 160);
  TopAnswer answer = top_answer(state, 1, 3);
  *answer.rows.jobs.front().add_late() = top_lateness(3, "n1");
  state.take(answer);
  EXPECT_THAT(screen_text(state), HasSubstr("late in job j0: +12 ms"));
}

TEST(TopFrame, TheHelpScrollsOnSmallScreens) {
  TopState state = top_state(3, 3, 5, 60);
  type(state, "?");
  EXPECT_THAT(screen_text(state), HasSubstr("end muster top"));
  EXPECT_THAT(screen_text(state), Not(HasSubstr("closes it")));
  press(state, TopKey::kDown, 50);
  EXPECT_THAT(screen_text(state), HasSubstr("any other key closes it"));
}

TEST(TopFrame, WithoutLauncherd) {
  TopState state("");
  state.resize(24, 80);
  EXPECT_THAT(screen_text(state), HasSubstr("no launcherd"));
  state.take({.query = state.query(), .at = kTopTime});
  EXPECT_THAT(screen_text(state), HasSubstr(" no jobs"));
  EXPECT_THAT(screen_text(state), HasSubstr(" no hosts"));
}

}  // namespace
}  // namespace muster::cli::top_frame_test
