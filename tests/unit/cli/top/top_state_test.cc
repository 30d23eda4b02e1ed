// Keys and answers of `muster top`: every key on every screen, then what each does.
#include "cli/top/top_state.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::top_state_test {
namespace {

using ::testing::HasSubstr;
using namespace testing_support;  // NOLINT: only samples

// The visible part of the state, for comparisons.
struct Seen {
  bool is_open = true;  // the program goes on
  TopScreen screen = TopScreen::kMain;
  bool has_help = false;
  bool is_typing = false;
  TopPane pane = TopPane::kJobs;
  std::int64_t job = 0;
  std::int64_t host = 0;
  std::int64_t rank = 0;
  std::int64_t host_job = 0;
  bool all = false;
  v1::JobOrder order = v1::JOB_ORDER_STATE;
  bool is_reversed = false;

  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << fmt::format(
             "open {} screen {} help {} typing {} pane {} job {} host {} rank {} host job {} all {} order {} rev {}",
             seen.is_open, static_cast<int>(seen.screen), seen.has_help, seen.is_typing, static_cast<int>(seen.pane),
             seen.job, seen.host, seen.rank, seen.host_job, seen.all, static_cast<int>(seen.order), seen.is_reversed);
}

Seen seen_after(TopState state, const KeyPress& key) {
  Seen seen;
  seen.is_open = state.apply(key);
  seen.screen = state.screen();
  seen.has_help = state.has_help();
  seen.is_typing = state.is_typing();
  seen.pane = state.pane();
  seen.job = state.job_cursor().at;
  seen.host = state.host_cursor().at;
  seen.rank = state.rank_cursor().at;
  seen.host_job = state.host_job_cursor().at;
  seen.all = state.list().all;
  seen.order = state.list().order;
  seen.is_reversed = state.list().is_reversed;
  return seen;
}

// The second of 40 jobs and of 40 hosts is selected. The screen has 7 rows for each.
TopState main_screen() {
  TopState state = top_state(40, 40, 20);
  press(state, TopKey::kDown);
  press(state, TopKey::kTab);
  press(state, TopKey::kDown);
  press(state, TopKey::kTab);
  return state;
}

TopState job_screen() {
  TopState state = main_screen();
  press(state, TopKey::kEnter);
  TopAnswer answer = top_answer(state, 40, 40);
  answer.job = top_job("j1", v1::JOB_STATE_RUNNING, 100);
  for (int rank = 0; rank < 60; ++rank) answer.job->add_ranks()->set_rank(rank);
  state.take(std::move(answer));
  press(state, TopKey::kDown);
  return state;
}

TopState host_screen() {
  TopState state = main_screen();
  press(state, TopKey::kTab);
  press(state, TopKey::kEnter);
  TopAnswer answer = top_answer(state, 40, 40);
  for (int i = 0; i < 30; ++i) answer.host_jobs.push_back(top_job(fmt::format("h{}", i)));
  state.take(std::move(answer));
  press(state, TopKey::kDown);
  return state;
}

TopState help_screen() {
  TopState state = main_screen();
  type(state, "?");
  return state;
}

TopState filter_screen() {
  TopState state = main_screen();
  type(state, "/");
  return state;
}

struct KeyEffect {
  std::string name;
  KeyPress key;
  std::function<void(Seen&)> on_main;
  std::function<void(Seen&)> on_job;
  std::function<void(Seen&)> on_host;
  std::function<void(Seen&)> on_help;
};

const std::function<void(Seen&)> kNothing = [](Seen&) {};
const std::function<void(Seen&)> kCloses = [](Seen& seen) { seen.has_help = false; };
const std::function<void(Seen&)> kHelp = [](Seen& seen) { seen.has_help = true; };

// The rows to which a moving key goes on each screen.
KeyEffect moving(const std::string& name, const KeyPress& key, std::int64_t job, std::int64_t rank,
                 std::int64_t host_job, const std::function<void(Seen&)>& on_help = kCloses) {
  return {name,
          key,
          [job](Seen& seen) { seen.job = job; },
          [rank](Seen& seen) { seen.rank = rank; },
          [host_job](Seen& seen) { seen.host_job = host_job; },
          on_help};
}

std::vector<KeyEffect> all_keys() {
  const auto quits = [](Seen& seen) { seen.is_open = false; };
  const auto main = [](Seen& seen) { seen.screen = TopScreen::kMain; };
  const auto job = [](Seen& seen) { seen.screen = TopScreen::kJob; };
  return {
      {"q", typed("q"), quits, quits, quits, kCloses},
      {"Q", typed("Q"), quits, quits, quits, kCloses},
      {"?", typed("?"), kHelp, kHelp, kHelp, kCloses},
      {"h", typed("h"), kHelp, kHelp, kHelp, kCloses},
      {"x", typed("x"), kNothing, kNothing, kNothing, kCloses},
      {"a", typed("a"), [](Seen& seen) { seen.all = true, seen.job = 0; }, kNothing, kNothing, kCloses},
      {"s", typed("s"), [](Seen& seen) { seen.order = v1::JOB_ORDER_UNSPECIFIED, seen.job = 0; }, kNothing, kNothing,
       kCloses},
      {"r", typed("r"), [](Seen& seen) { seen.is_reversed = true, seen.job = 0; }, kNothing, kNothing, kCloses},
      {"/", typed("/"), [](Seen& seen) { seen.is_typing = true; }, kNothing, kNothing, kCloses},
      {"Tab", {.key = TopKey::kTab}, [](Seen& seen) { seen.pane = TopPane::kHosts; }, kNothing, kNothing, kCloses},
      {"Enter", {.key = TopKey::kEnter}, job, kNothing, job, kCloses},
      {"Escape", {.key = TopKey::kEscape}, kNothing, main, main, kCloses},
      {"Backspace", {.key = TopKey::kBackspace}, kNothing, main, main, kCloses},
      {"Ctrl-U", {.key = TopKey::kClearLine}, kNothing, kNothing, kNothing, kCloses},
      {"other", {.key = TopKey::kOther}, kNothing, kNothing, kNothing, kCloses},
      moving("Up", {.key = TopKey::kUp}, 0, 0, 0, kNothing),
      moving("Down", {.key = TopKey::kDown}, 2, 2, 2, kNothing),
      moving("k", typed("k"), 0, 0, 0),
      moving("j", typed("j"), 2, 2, 2),
      moving("g", typed("g"), 0, 0, 0),
      moving("G", typed("G"), 39, 99, 29),
      moving("Home", {.key = TopKey::kHome}, 0, 0, 0),
      moving("End", {.key = TopKey::kEnd}, 39, 99, 29),
      moving("PageUp", {.key = TopKey::kPageUp}, 0, 0, 0),
      moving("PageDown", {.key = TopKey::kPageDown}, 8, 14, 15),
      moving("wheel up", {.key = TopKey::kWheelUp, .row = 4}, 0, 0, 0, kNothing),
      moving("wheel down", {.key = TopKey::kWheelDown, .row = 4}, 4, 4, 4, kNothing),
  };
}

void expect_effect(const TopState& before, const KeyEffect& key, const std::function<void(Seen&)>& effect,
                   const char* screen) {
  Seen expected = seen_after(before, {.key = TopKey::kOther});
  effect(expected);
  EXPECT_EQ(seen_after(before, key.key), expected) << key.name << " on the screen " << screen;
}

TEST(TopState, EveryKeyOnTheMainScreen) {
  for (const KeyEffect& key : all_keys()) expect_effect(main_screen(), key, key.on_main, "main");
}

TEST(TopState, EveryKeyOnTheScreenOfAJob) {
  for (const KeyEffect& key : all_keys()) expect_effect(job_screen(), key, key.on_job, "job");
}

TEST(TopState, EveryKeyOnTheScreenOfAHost) {
  for (const KeyEffect& key : all_keys()) expect_effect(host_screen(), key, key.on_host, "host");
}

TEST(TopState, EveryKeyInTheHelp) {
  const TopState before = help_screen();
  Seen shown = seen_after(main_screen(), typed("?"));
  for (const KeyEffect& key : all_keys()) {
    Seen expected = shown;
    key.on_help(expected);
    EXPECT_EQ(seen_after(before, key.key), expected) << key.name;
  }
}

TEST(TopState, LettersAreTextWhileAFilterIsTyped) {
  for (const KeyEffect& key : all_keys()) {
    TopState state = filter_screen();
    EXPECT_TRUE(state.apply(key.key)) << key.name;
    const bool ends = key.key.key == TopKey::kEnter || key.key.key == TopKey::kEscape;
    EXPECT_EQ(state.is_typing(), !ends) << key.name;
    if (key.key.key == TopKey::kText) {
      EXPECT_EQ(state.typed(), key.key.text);
    }
    EXPECT_EQ(state.job_cursor().at, ends && key.key.key == TopKey::kEnter ? 0 : 1) << key.name;
    EXPECT_FALSE(state.has_help()) << key.name;
  }
}

TEST(TopState, TheServerFiltersJobs) {
  TopState state = top_state(40, 4);
  type(state, "/nigth");
  press(state, TopKey::kBackspace, 2);
  type(state, "ht ");
  EXPECT_EQ(state.query().list.filter, "");
  press(state, TopKey::kEnter);
  EXPECT_EQ(state.query().list.filter, "night ");
  type(state, "/");
  EXPECT_EQ(state.typed(), "night ") << "to be changed";
  press(state, TopKey::kClearLine);
  type(state, "x");
  press(state, TopKey::kEscape);
  EXPECT_EQ(state.query().list.filter, "night ") << "Escape leaves the filter as it was";
  press(state, TopKey::kEscape);
  EXPECT_EQ(state.query().list.filter, "") << "Escape on the main screen drops it";
}

TEST(TopState, AFilterHasALimit) {
  TopState state = top_state(1, 1);
  type(state, "/" + std::string(1000, 'x'));
  EXPECT_EQ(state.typed().size(), TopState::kLongestFilter);
}

TEST(TopState, HostsAreFilteredAndSortedHere) {
  TopState state = top_state(1, 12);
  press(state, TopKey::kTab);
  type(state, "/n1");
  press(state, TopKey::kEnter);
  EXPECT_EQ(state.host_rows(), (std::vector<std::size_t>{1, 10, 11}));
  type(state, "r");
  EXPECT_EQ(state.host_rows(), (std::vector<std::size_t>{11, 10, 1}));
  type(state, "s");
  EXPECT_EQ(state.host_order(), HostOrder::kName);
  EXPECT_EQ(state.query().list, JobList()) << "the list of jobs is as it was";
  for (int i = 1; i < kHostOrders; ++i) type(state, "s");
  EXPECT_EQ(state.host_order(), HostOrder::kList);
}

TEST(TopState, EveryOrderOfTheServerIsReached) {
  TopState state = top_state(1, 1);
  std::vector<v1::JobOrder> orders;
  for (int i = 0; i < 6; ++i) {
    orders.push_back(state.query().list.order);
    type(state, "s");
  }
  EXPECT_THAT(orders,
              ::testing::UnorderedElementsAre(v1::JOB_ORDER_STATE, v1::JOB_ORDER_UNSPECIFIED, v1::JOB_ORDER_NAME,
                                              v1::JOB_ORDER_SIZE, v1::JOB_ORDER_PRIORITY, v1::JOB_ORDER_TIME));
  EXPECT_EQ(state.query().list.order, v1::JOB_ORDER_STATE);
}

TEST(TopState, OnlyTheRowsNearTheScreenAreAskedFor) {
  TopState state = top_state(10'000, 4);
  const std::int64_t shown = state.areas().jobs.rows;
  EXPECT_EQ(state.query().first, 0);
  EXPECT_EQ(state.query().count, shown + 2 * TopState::kMargin);
  press(state, TopKey::kEnd);
  EXPECT_EQ(state.job_cursor().at, 9'999);
  EXPECT_EQ(state.query().first, 10'000 - shown - TopState::kMargin);
  EXPECT_EQ(state.job_at(9'999), nullptr) << "has not arrived yet";
  state.take(top_answer(state, 10'000, 4));
  ASSERT_NE(state.job_at(9'999), nullptr);
  EXPECT_EQ(state.job_at(9'999)->id(), "j9999");
}

TEST(TopState, AnAnswerToAnotherListIsIgnored) {
  TopState state = top_state(40, 4);
  const TopAnswer old = top_answer(state, 40, 4);
  type(state, "a");
  TopAnswer late = old;
  late.rows.total = 7;
  state.take(late);
  EXPECT_EQ(state.job_count(), 40);
}

TEST(TopState, TheSelectedJobStaysSelectedWhenItMoves) {
  TopState state = main_screen();
  TopAnswer answer = top_answer(state, 40, 40);
  answer.rows.jobs.insert(answer.rows.jobs.begin(), {top_job("new1"), top_job("new2")});
  answer.rows.total = 42;
  state.take(answer);
  EXPECT_EQ(state.job_at(state.job_cursor().at)->id(), "j1");
  EXPECT_EQ(state.job_cursor().at, 3);
}

TEST(TopState, TheFirstRowStaysTheFirstRow) {
  TopState state = top_state(40, 4);
  TopAnswer answer = top_answer(state, 40, 4);
  answer.rows.jobs.insert(answer.rows.jobs.begin(), top_job("new"));
  state.take(answer);
  EXPECT_EQ(state.job_cursor().at, 0);
}

TEST(TopState, ForegroundJobsComeFirstAndAreFilteredHere) {
  TopState state = top_state(40, 4);
  TopAnswer answer = top_answer(state, 40, 4);
  answer.foreground = {top_job("fore"), top_job("back")};
  state.take(answer);
  EXPECT_EQ(state.job_count(), 42);
  EXPECT_EQ(state.job_at(1)->id(), "back");
  EXPECT_EQ(state.job_at(2)->id(), "j0");
  type(state, "/fore");
  press(state, TopKey::kEnter);
  answer.query = state.query();
  state.take(answer);
  EXPECT_EQ(state.job_count(), 41);
}

TEST(TopState, AnOpenJobAsksForItsRanks) {
  TopState state = main_screen();
  press(state, TopKey::kEnter);
  EXPECT_EQ(state.query().job, "j1");
  EXPECT_EQ(state.query().first_rank, 0);
  state = job_screen();
  press(state, TopKey::kEnd);
  EXPECT_GT(state.query().first_rank, 0);
  EXPECT_EQ(state.rank_at(99), nullptr);
  press(state, TopKey::kEscape);
  EXPECT_EQ(state.query().job, "");
  EXPECT_EQ(state.job_cursor().at, 1) << "the list is as it was";
}

TEST(TopState, AnOpenHostLeadsToItsJobsAndBack) {
  TopState state = host_screen();
  EXPECT_EQ(state.query().host, "n1");
  press(state, TopKey::kEnter);
  EXPECT_EQ(state.query().job, "h1");
  press(state, TopKey::kEscape);
  EXPECT_EQ(state.screen(), TopScreen::kHost);
  press(state, TopKey::kEscape);
  EXPECT_EQ(state.screen(), TopScreen::kMain);
}

TEST(TopState, ALauncherdThatIsGoneLeavesTheLastAnswer) {
  TopState state = top_state(40, 4);
  TopAnswer gone{.query = state.query(), .problem = "no launcherd answers", .at = kTopTime};
  state.take(gone);
  EXPECT_EQ(state.job_count(), 40);
  EXPECT_EQ(state.hosts().size(), 4U);
  EXPECT_THAT(state.problem(), HasSubstr("no launcherd answers"));
  state.take(top_answer(state, 39, 4));
  EXPECT_EQ(state.problem(), "");
  EXPECT_EQ(state.job_count(), 39);
}

TEST(TopState, ALauncherdThatIsSilentIsReported) {
  TopState state = top_state(40, 4);
  state.set_time(kTopTime + std::chrono::seconds(4));
  EXPECT_EQ(state.problem(), "");
  state.set_time(kTopTime + std::chrono::seconds(12));
  EXPECT_THAT(state.problem(), HasSubstr("no answer for 12"));
}

TEST(TopState, AClickSelectsAndASecondOneOpens) {
  TopState state = top_state(40, 40, 20);
  const TableArea hosts = state.areas().hosts;
  (void)state.apply({.key = TopKey::kClick, .row = hosts.first + 2});
  EXPECT_EQ(state.pane(), TopPane::kHosts);
  EXPECT_EQ(state.host_cursor().at, 2);
  EXPECT_EQ(state.screen(), TopScreen::kMain);
  (void)state.apply({.key = TopKey::kClick, .row = hosts.first + 2});
  EXPECT_EQ(state.screen(), TopScreen::kHost);
  EXPECT_EQ(state.host_name(), "n2");
}

TEST(TopState, AClickOnATitleGivesTheTableTheKeys) {
  TopState state = top_state(2, 2, 20);
  (void)state.apply({.key = TopKey::kClick, .row = state.areas().hosts.title});
  EXPECT_EQ(state.pane(), TopPane::kHosts);
  (void)state.apply({.key = TopKey::kClick, .row = 0});
  EXPECT_EQ(state.pane(), TopPane::kHosts) << "nothing is there";
}

TEST(TopState, TheWheelScrollsTheTableBelowIt) {
  TopState state = top_state(40, 40, 20);
  (void)state.apply({.key = TopKey::kWheelDown, .row = state.areas().hosts.first});
  EXPECT_EQ(state.host_cursor().at, 3);
  EXPECT_EQ(state.job_cursor().at, 0);
  EXPECT_EQ(state.pane(), TopPane::kJobs);
}

// Keys in any order on any size neither crash nor leave the lists.
TEST(TopState, AnyKeysOnAnySizeKeepTheCursorsInTheirLists) {
  unsigned random = 1;
  const auto next = [&random](unsigned below) {
    random = random * 1'103'515'245 + 12'345;
    return (random >> 16) % below;
  };
  const std::vector<KeyEffect> keys = all_keys();
  TopState state = top_state(300, 70);
  for (int i = 0; i < 500; ++i) {
    if (next(20) == 0) state.resize(static_cast<int>(next(60)), static_cast<int>(next(200)));
    if (next(10) == 0) {
      TopAnswer answer = top_answer(state, static_cast<int>(next(300)), static_cast<int>(next(70)));
      if (!answer.query.job.empty()) answer.job = top_job(answer.query.job);
      state.take(std::move(answer));
    }
    KeyPress key = keys[next(static_cast<unsigned>(keys.size()))].key;
    key.row = static_cast<int>(next(60));
    (void)state.apply(key);
    const TopFrame frame = frame_of(state);
    ASSERT_EQ(std::ssize(frame.lines), state.lines());
    ASSERT_GE(state.job_cursor().at, state.job_cursor().top);
    ASSERT_LE(state.job_cursor().at, std::max<std::int64_t>(state.job_count() - 1, 0));
    ASSERT_LE(state.host_cursor().at, std::max<std::int64_t>(std::ssize(state.host_rows()) - 1, 0));
  }
}

}  // namespace
}  // namespace muster::cli::top_state_test
