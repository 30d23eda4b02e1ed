#include "cli/view/hang_view.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/hang_rules.h"
#include "tests/unit/model/hang_evidence.h"

namespace muster::cli::hang_view_test {
namespace {

using ::testing::HasSubstr;

std::string text_of(const model::HangReport& report, const HangViewOptions& options = {.job = "abc"}) {
  return base::join(format_hang(report, options), "\n");
}

TEST(HangView, ShowsSuspectsFirst) {
  std::vector<model::Track> ranks =
      model::but({model::in_allreduce(17)}, 2, {model::after_allreduce(16, model::in_lock())});
  for (model::Rank& rank : ranks[2]) {
    rank.evidence.last_line = "epoch 3";
    rank.evidence.silent_ms = 125'000;
  }
  model::HangFacts facts = model::facts_of(ranks);
  facts.looked_ms = 3'400;
  EXPECT_EQ(text_of(judge_hang(facts).report),
            "the job seems to hang: no progress for 2 m 00 s (4 of 4 ranks were looked at in 3.4 s)\n"
            "cause    rank 2 on n3 has not begun allreduce \"grad/17\", in which 3 ranks wait; rank 2 does not move "
            "(futex_wait_queue), in main (train.py:55)\n"
            "suspect  rank 2: n3, pid 4242; sleeps in futex_wait_queue; after allreduce \"grad/16\", operation 16\n"
            "         <module> (train.py:90) > main (train.py:55)\n"
            "         last output 2 m 05 s ago: epoch 3\n"
            "others   ranks 0-1,3: 3 ranks; sleeps in futex_wait_queue; in allreduce \"grad/17\", operation 17\n"
            "         <module> (train.py:90) > main (train.py:44)\n"
            "next     muster stacks abc -r 2 --native, or muster stacks abc --tree");
}

TEST(HangView, ShowsReportsThatUsersAskFor) {
  model::HangFacts facts = model::facts_of(model::but({model::in_gloo()}, 2, model::evaluates()));
  facts.silent_hosts = {"n7", "n8"};
  const std::string text = text_of(judge_hang(facts).report, {.is_asked_for = true});
  EXPECT_THAT(
      text, ::testing::StartsWith("4 of 4 ranks were looked at in 0.0 s\ncause    no hang found: rank 2 on n3 works"));
  EXPECT_THAT(text, HasSubstr("silent   n7,n8"));
  EXPECT_EQ(text.find("next"), std::string::npos);
}

TEST(HangView, FitsTheLimitsForAnyNumberOfRanksAndPlaces) {
  std::vector<model::Track> ranks(2000, {model::in_gloo()});
  for (std::size_t i = 0; i < 1000; ++i) {
    model::Rank rank = model::in_script(static_cast<int>(100 + i)).waits_in("futex_wait_queue");
    for (int depth = 0; depth < 30; ++depth)
      rank = std::move(rank).in("function_of_a_long_name", "/home/alice/a_file.py", depth);
    rank.evidence.last_line = std::string(200, 'x');
    ranks[2 * i] = {rank};
  }
  model::HangFacts facts = model::facts_of(ranks);
  facts.silent_hosts.assign(300, "a-host");
  facts.nccl.assign(8, {.text = std::string(300, 'x'), .ranks = {}});
  const std::vector<std::string> lines = format_hang(judge_hang(facts).report, {.job = "abc"});
  EXPECT_LE(lines.size(), kMostHangLines);
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("cause") || line.size() <= 100) << line;
  }
  EXPECT_THAT(base::join(lines, "\n"), HasSubstr(" other places"));
}

TEST(HangView, ReportsTwoThousandRanksFast) {
  std::vector<model::Track> ranks(2000, {model::in_allreduce(900)});
  for (std::size_t i = 0; i < 700; ++i) ranks[i] = {model::in_allreduce(900).in("wait", "/home/alice/opt.py", 7)};
  ranks[1234] = {model::after_allreduce(899, model::in_lock())};
  const model::HangFacts facts = model::facts_of(ranks);
  const auto began = std::chrono::steady_clock::now();
  const std::vector<std::string> lines = format_hang(judge_hang(facts).report, {.job = "abc"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  EXPECT_LE(lines.size(), kMostHangLines);
  EXPECT_THAT(lines[1], HasSubstr("rank 1234 on n1235 has not begun"));
  EXPECT_THAT(lines[2], ::testing::StartsWith("suspect  rank 1234: n1235"));
}

TEST(HangView, MakesTextPrintable) {
  model::Rank rank = model::in_lock().in("f\x1b[2J", "/a/b\n.py", 1);
  rank.evidence.last_line = "\x07";
  const std::string text = text_of(judge_hang(model::facts_of(model::but({model::in_gloo()}, 1, {rank}))).report);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << text;
}

TEST(HangView, FormatsTimes) {
  EXPECT_EQ(format_silence(std::chrono::milliseconds(9'999)), "9 s");
  EXPECT_EQ(format_silence(std::chrono::seconds(182)), "3 m 02 s");
  EXPECT_EQ(format_silence(std::chrono::minutes(125)), "2 h 05 m");
  EXPECT_EQ(format_hang_over(std::chrono::seconds(182)), "the job goes on after 3 m 02 s");
}

TEST(HangView, ShowsWhatTorchAndNcclKnow) {
  model::HangFacts facts = model::facts_of(
      model::but({model::in_call().torch(17, "started")}, 2, {model::in_lock().torch(16, "completed")}));
  facts.nccl = {
      {.text = "communicator of 4 ranks: rank 2 has begun 16 operations AllReduce, but 3 ranks 17", .ranks = {2}}};
  const std::string text = text_of(judge_hang(facts).report, {.job = "abc", .columns = 200});
  EXPECT_THAT(text, HasSubstr("\ncause    rank 2 on n3 is not in nccl:all_reduce 17 of group default_pg, in which 3 "
                              "ranks wait; rank 2 does not move"));
  EXPECT_THAT(text, HasSubstr("; after nccl:all_reduce 16 of group default_pg\n"));
  EXPECT_THAT(text, HasSubstr("; in nccl:all_reduce 17 of group default_pg\n"));
  EXPECT_THAT(text, HasSubstr("\nnccl     communicator of 4 ranks: rank 2 has begun 16 operations AllReduce, but 3 "
                              "ranks 17\n"));
  facts.nccl.insert(facts.nccl.end(), 7, facts.nccl.front());
  EXPECT_THAT(text_of(judge_hang(facts).report), HasSubstr("\nnccl     and 7 other communicators: see --json\n"));
}

}  // namespace
}  // namespace muster::cli::hang_view_test
