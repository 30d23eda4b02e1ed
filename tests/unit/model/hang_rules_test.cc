#include "model/hang_rules.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/model/hang_evidence.h"

namespace muster::model::hang_rules_test {
namespace {

using ::testing::HasSubstr;

constexpr int kLate = kLateFactor;

std::vector<int> suspects(const HangReport& report) {
  std::vector<int> ranks;
  for (const HangClass& place : report.classes) {
    if (place.suspect) ranks.insert(ranks.end(), place.ranks.begin(), place.ranks.end());
  }
  std::ranges::sort(ranks);
  return ranks;
}

struct Hang {
  std::string name;
  std::vector<Track> ranks;
  HangRule rule;
  std::vector<int> suspects;
  std::string cause;     // a part of it
  bool is_late = false;  // reported only late
};

const std::vector<Hang>& zoo() {
  static const std::vector<Hang> kZoo = {
      {"lock while others are in gloo",
       but({in_gloo()}, 2, {in_lock()}),
       HangRule::kElsewhere,
       {2},
       "rank 2 on n3 does not move (futex_wait_queue), in main (train.py:55), while 3 ranks wait for others"},
      {"lock while others are in recv",
       but({in_recv()}, 1, {in_lock()}),
       HangRule::kElsewhere,
       {1},
       "rank 1 on n2 does not move",
       true},
      {"one rank missing in an allreduce",
       but({in_allreduce(17)}, 3, {after_allreduce(16, in_lock())}),
       HangRule::kBehind,
       {3},
       "rank 3 on n4 has not begun allreduce \"grad/17\", in which 3 ranks wait; rank 3 does not move"},
      {"one rank in an earlier operation",
       but({in_allreduce(17)}, 0, {in_allreduce(12, "old", "broadcast")}),
       HangRule::kBehind,
       {0},
       "rank 0 is in broadcast \"old\", in main (train.py:44)"},
      {"swapped order",
       but({in_allreduce(17, "a")}, 1, {in_allreduce(17, "b")}),
       HangRule::kSwapped,
       {1},
       "rank 1 on n2 is in allreduce \"b\", in main (train.py:44), but rank 0 is in allreduce \"a\""},
      {"swapped kinds of operations",
       but({in_allreduce(17, "a")}, 2, {in_allreduce(17, "a", "allgather")}),
       HangRule::kSwapped,
       {2},
       "is in allgather \"a\""},
      {"swapped order of two ranks",
       {{in_allreduce(5, "a")}, {in_allreduce(5, "b")}},
       HangRule::kSwapped,
       {},
       "the order of operations differs"},
      {"stopped by a signal",
       but({in_gloo()}, 2, {is_stopped()}),
       HangRule::kStopped,
       {2},
       "rank 2 on n3 is stopped by a signal (state T), in main (train.py:50)"},
      {"stopped while others spin", but({in_mpi()}, 2, {is_stopped()}), HangRule::kStopped, {2}, "is stopped"},
      {"stopped while others work", but(evaluates(), 1, {is_stopped()}), HangRule::kStopped, {1}, "is stopped"},
      {"two ranks are stopped",
       {{is_stopped()}, {in_gloo()}, {is_stopped()}, {in_gloo()}},
       HangRule::kStopped,
       {0, 2},
       "rank 0 on n1 and 1 other rank are stopped"},
      {"disk that does not answer",
       but({in_allreduce(3)}, 1, {after_allreduce(2, on_disk())}),
       HangRule::kDisk,
       {1},
       "(state D, nfs_wait_bit_killable), in main (train.py:88), while 3 ranks wait in allreduce"},
      {"all ranks wait for a disk", std::vector<Track>(4, {on_disk()}), HangRule::kDisk, {0, 1, 2, 3}, "3 other ranks"},
      {"rank 0 sleeps", but({in_gloo()}, 0, {in_sleep()}), HangRule::kElsewhere, {0}, "train.py:66"},
      {"rank 0 sleeps, sockets", but({in_recv()}, 0, {in_sleep()}), HangRule::kElsewhere, {0}, "train.py:66", true},
      {"a DataLoader's pipe", but({in_gloo()}, 3, {in_pipe()}), HangRule::kElsewhere, {3}, "(pipe_read)"},
      {"a child that does not end", but({in_mpi()}, 1, {in_child()}), HangRule::kElsewhere, {1}, "(do_wait)"},
      {"infinite loop in Python",
       but({in_recv()}, 2, loops()),
       HangRule::kBusy,
       {2},
       "rank 2 on n3 loops, in main (train.py:30), while 3 ranks wait for others",
       true},
      {"infinite loop before an allreduce",
       but({in_allreduce(9)}, 2, {after_allreduce(8, in_call())}),
       HangRule::kBehind,
       {2},
       "rank 2 has been computing in one call, in main (train.py:99)",
       true},
      {"loop in a C extension", but({in_gloo()}, 0, {in_call()}), HangRule::kBusy, {0}, "computing in one call", true},
      {"loop of a C program",
       but({Rank().native("MPI_Recv")}, 1, {Rank().native("spin").state("R").uses(1000)}),
       HangRule::kBusy,
       {1},
       "rank 1 on n2 has been computing in one call, in spin ()",
       true},
      {"MPI_Recv without a sender",
       but({in_mpi("MPI_Barrier").uses(0)}, 3, {in_script(12).native("MPI_Recv").waits_in("do_poll")}),
       HangRule::kDifferent,
       {3},
       "rank 3 on n4 waits for other ranks elsewhere, in main (train.py:12)",
       true},
      {"a socket while others are in gloo",
       but({in_gloo()}, 1, {in_recv()}),
       HangRule::kElsewhere,
       {1},
       "waits for a connection (wait_woken)"},
      {"accepts while others are in gloo",
       but({in_gloo()}, 1, {in_accept()}),
       HangRule::kElsewhere,
       {1},
       "inet_csk_accept",
       true},
      {"a key that no rank sets",
       std::vector<Track>(4, {in_key()}),
       HangRule::kKeys,
       {},
       "all 4 ranks wait for the key x in the store, and no rank is left that could answer, in main (train.py:43)"},
      {"each rank waits for another key",
       {{in_key("the key a")}, {in_key("the key b")}},
       HangRule::kKeys,
       {},
       "the key a and 1 others"},
      {"a fence that one rank does not join",
       but({in_key("a fence of PMIx")}, 2, {in_lock()}),
       HangRule::kElsewhere,
       {2},
       "while 3 ranks wait for others"},
      {"all ranks in one allreduce",
       std::vector<Track>(4, {in_allreduce(4)}),
       HangRule::kTogether,
       {},
       "all 4 ranks wait in allreduce \"grad/17\", in main (train.py:44): no rank differs",
       true},
  };
  return kZoo;
}

TEST(HangRules, NameTheSuspectsOfEachHang) {
  for (const Hang& hang : zoo()) {
    SCOPED_TRACE(hang.name);
    const HangVerdict verdict = judge_hang(facts_of(hang.ranks, hang.is_late ? kLate : 1));
    EXPECT_EQ(verdict.rule, hang.rule) << name_of(verdict.rule) << ": " << verdict.report.cause;
    EXPECT_TRUE(verdict.is_hung) << verdict.report.cause;
    EXPECT_EQ(suspects(verdict.report), hang.suspects) << verdict.report.cause;
    EXPECT_THAT(verdict.report.cause, HasSubstr(hang.cause));
  }
  EXPECT_GE(zoo().size(), 15u);
}

TEST(HangRules, ReportDoubtfulHangsOnlyLateOrIfAsked) {
  for (const Hang& hang : zoo()) {
    if (!hang.is_late) continue;
    SCOPED_TRACE(hang.name);
    HangFacts facts = facts_of(hang.ranks, 1);
    HangVerdict verdict = judge_hang(facts);
    EXPECT_FALSE(verdict.is_hung);
    EXPECT_TRUE(suspects(verdict.report).empty());
    facts.is_asked_for = true;
    verdict = judge_hang(facts);
    EXPECT_TRUE(verdict.is_hung);
    EXPECT_EQ(suspects(verdict.report), hang.suspects);
  }
}

TEST(HangRules, LateReportsNeedTheSamePlaceInEarlierLooks) {
  const std::vector<Track> ranks = but({in_recv()}, 2, loops());
  HangFacts facts = facts_of(ranks, kLate);
  facts.earlier = looks_at(but({in_recv()}, 2, evaluates()));
  EXPECT_FALSE(judge_hang(facts).is_hung);
  facts.earlier = looks_at(but({in_lock()}, 2, loops()));  // only the suspect must have been there
  EXPECT_TRUE(judge_hang(facts).is_hung);
  facts.earlier.clear();
  EXPECT_FALSE(judge_hang(facts).is_hung);
}

TEST(HangRules, EndedRanksAreTheCauseIfAllOthersWait) {
  HangFacts facts = facts_of(std::vector<Track>(3, {in_gloo()}));
  facts.ended = {3};
  const HangVerdict verdict = judge_hang(facts);
  EXPECT_TRUE(verdict.is_hung);
  EXPECT_EQ(verdict.rule, HangRule::kEnded);
  EXPECT_THAT(verdict.report.cause, HasSubstr("rank 3 has ended, and 3 ranks wait for others"));
}

TEST(HangRules, SilentHostsAreTheCauseIfAllOthersWait) {
  HangFacts facts = facts_of(std::vector<Track>(3, {in_gloo()}));
  facts.silent_hosts = {"n7"};
  const HangVerdict verdict = judge_hang(facts);
  EXPECT_TRUE(verdict.is_hung);
  EXPECT_THAT(verdict.report.cause, HasSubstr("n7 did not answer"));
  EXPECT_EQ(verdict.report.silent_hosts, facts.silent_hosts);
}

// Evidence of a healthy rank for which other ranks wait.
std::vector<std::pair<std::string, Track>> healthy_work() {
  const auto moving = [](Rank rank) {
    rank.evidence.moving = true;
    return rank;
  };
  Track imports = {in_script(1)
                       .in("_find_and_load", "<frozen importlib._bootstrap>", 1)
                       .in("get_data", "<frozen importlib._bootstrap_external>", 2),
                   in_script(1)
                       .in("_find_and_load", "<frozen importlib._bootstrap>", 1)
                       .in("exec_module", "<frozen importlib._bootstrap_external>", 3),
                   in_script(1).in("_find_and_load", "<frozen importlib._bootstrap>", 1)};
  for (Rank& rank : imports) rank = std::move(rank).state("R").uses(800);
  return {
      {"evaluates", evaluates()},
      {"imports", imports},
      {"epoch of changing functions",
       changes(moving(in_script(10).state("R").uses(900)),
               moving(in_script(11).in("step", "/home/alice/opt.py", 3).state("R").uses(900)))},
      {"threads compute", {in_lock().uses(700)}},
      {"a child compiles", {in_child().uses(950)}},
      {"workers feed a pipe", {in_pipe().uses(400)}},
      {"downloads",
       {in_script(20).in("readinto", "/usr/lib/python3.11/socket.py", 706).waits_in("wait_woken").uses(20)}},
      {"writes a checkpoint", {on_disk().uses(50)}},
      {"reads files in state D", changes(on_disk(), in_script(89).state("D").waits_in("folio_wait_bit"))},
      {"finishes operations", changes(in_allreduce(5), in_allreduce(6))},
      {"sends heartbeats",
       [] {
         Track track = {in_allreduce(5), in_allreduce(5), in_allreduce(5)};
         for (std::size_t i = 0; i < track.size(); ++i) track[i].evidence.collective->beats = i;
         return track;
       }()},
      {"cannot be read", {[] {
         Rank rank = in_lock();
         rank.evidence.state = "";
         rank.evidence.problem = "its memory may not be read";
         return rank;
       }()}},
      {"native program that moves",
       changes(Rank().native("dgemm_kernel").state("R").uses(1000), Rank().native("memcpy").state("R").uses(1000))},
      {"native program of an unknown place", {Rank().state("R").uses(1000)}},
      {"polls with sleeps in changing lines",
       changes(moving(in_script(60).waits_in("hrtimer_nanosleep")), moving(in_script(61)))},
  };
}

TEST(HangRules, JobsWhoseRanksWorkAreNeverReported) {
  int checked = 0;
  const std::vector<std::pair<std::string, Track>> waits = {
      {"gloo", {in_gloo()}}, {"recv", {in_recv()}}, {"MPI", {in_mpi()}}, {"key", {in_key()}}, {"lock", {in_lock()}}};
  for (const auto& [work, track] : healthy_work()) {
    for (const auto& [wait, others] : waits) {
      for (const int limits : {1, kLate, 10}) {
        const HangVerdict verdict = judge_hang(facts_of(but(others, 0, track), limits));
        EXPECT_FALSE(verdict.is_hung) << "rank 0 " << work << ", others in " << wait << ": " << verdict.report.cause;
        EXPECT_TRUE(suspects(verdict.report).empty());
        ++checked;
      }
    }
    const HangVerdict all = judge_hang(facts_of(std::vector<Track>(4, track), kLate));
    EXPECT_FALSE(all.is_hung) << "all ranks: " << work << ": " << all.report.cause;
    ++checked;
  }
  EXPECT_GE(checked, 50);
}

// Ranks that wait for something outside the job.
TEST(HangRules, IdleServicesAreNeverReported) {
  const std::vector<std::pair<std::string, std::vector<Track>>> services = {
      {"servers", std::vector<Track>(4, {in_accept()})},
      {"event loops", std::vector<Track>(4, {in_epoll()})},
      {"sleepers", std::vector<Track>(4, {in_sleep()})},
      {"one rank that sleeps", {{in_sleep()}}},
      {"one rank in a lock", {{in_lock()}}},
      {"a server and its workers", but({in_recv()}, 0, {in_accept()})},
      {"a server in a loop and its workers", but({in_recv()}, 0, {in_epoll()})},
      {"workers of one queue", std::vector<Track>(4, {in_recv()})},
      {"shells that wait for programs", std::vector<Track>(4, {in_child()})},
      {"ranks that communicate all the time", but({in_mpi("MPI_Allreduce")}, 1, {in_mpi("MPI_Recv")})},
      {"one rank in MPI", {{in_mpi()}}},
  };
  for (const auto& [name, ranks] : services) {
    const HangVerdict verdict = judge_hang(facts_of(ranks, 10));
    EXPECT_FALSE(verdict.is_hung) << name << ": " << verdict.report.cause;
  }
}

TEST(HangRules, AnUnfinishedLineIsProgress) {
  const auto writes = [](std::int64_t silent_ms, std::string line) {
    Rank rank = in_sleep();
    rank.evidence.silent_ms = silent_ms;
    rank.evidence.last_line = std::move(line);
    return Track{rank};
  };
  const auto verdict_of = [&](std::int64_t silent_ms, std::string line) {
    return judge_hang(facts_of(but({in_gloo()}, 1, writes(silent_ms, std::move(line)))));
  };
  EXPECT_FALSE(verdict_of(500, "....").is_hung);
  EXPECT_THAT(verdict_of(500, "....").report.cause, HasSubstr("no hang found: rank 1 on n2 writes output"));
  EXPECT_TRUE(verdict_of(10'000'000, "....").is_hung);
  EXPECT_TRUE(verdict_of(500, "muster: tensors wait for ranks that have not submitted them: 'a' for 60 s").is_hung);
  EXPECT_TRUE(verdict_of(500, "2: [grad/17, grad/18 ...]").is_hung);
}

TEST(HangRules, NativeCodeThatRunsIsNotKnown) {
  const Track unseen = {Rank().state("R").uses(1000)};
  HangVerdict verdict = judge_hang(facts_of(std::vector<Track>(2, unseen), kLate));
  EXPECT_FALSE(verdict.is_hung);
  EXPECT_THAT(verdict.report.cause, HasSubstr("not known: rank 0 on n1 runs native code"));
  verdict = judge_hang(facts_of({unseen, evaluates()}, kLate));
  EXPECT_THAT(verdict.report.cause, HasSubstr("no hang found: rank 1 on n2 works"));
}

TEST(HangRules, AStackThatOnlySomeLooksCouldReadIsSeen) {
  const Track evaluates_fast = evaluates();
  const Rank unread = Rank().state("R").uses(1000);
  for (const Track& track : {Track{evaluates_fast.front(), unread}, Track{unread, evaluates_fast.front()}}) {
    const HangVerdict verdict = judge_hang(facts_of(but({in_gloo()}, 0, track), kLate));
    EXPECT_FALSE(verdict.is_hung);
    EXPECT_THAT(verdict.report.cause, HasSubstr("no hang found: rank 0 on n1 works"));
  }
}

TEST(HangRules, ARankThatAppearsInSomeLooksOnlyIsUnknown) {
  HangFacts facts = facts_of(but({in_gloo()}, 2, {in_lock()}));
  std::erase_if(facts.looks[1], [](const RankEvidence& each) { return each.rank == 2; });
  EXPECT_FALSE(judge_hang(facts).is_hung);
  EXPECT_FALSE(judge_hang({}).is_hung);
}

TEST(HangRules, ClassesAreSortedAndLimited) {
  std::vector<Track> ranks(200, {in_gloo()});
  for (int i = 0; i < 60; ++i) ranks[static_cast<std::size_t>(i)] = {in_script(1000 + i).waits_in("futex_wait_queue")};
  const HangReport report = judge_hang(facts_of(ranks)).report;
  ASSERT_EQ(report.classes.size(), kMostHangClasses);
  std::size_t all = 0;
  for (const HangClass& place : report.classes) {
    all += place.ranks.size();
    EXPECT_TRUE(std::ranges::is_sorted(place.ranks));
  }
  EXPECT_EQ(all, ranks.size());
  EXPECT_TRUE(report.classes.front().suspect);
  EXPECT_THAT(report.classes.back().example.problem, HasSubstr("other places"));
}

TEST(HangRules, JudgeTwoThousandRanksFast) {
  std::vector<Track> ranks(2000, {in_allreduce(900)});
  for (std::size_t i = 0; i < 700; ++i) ranks[i] = {in_allreduce(900).in("wait", "/home/alice/opt.py", 7)};
  ranks[1234] = {after_allreduce(899, in_lock())};
  const HangFacts facts = facts_of(ranks);
  const auto began = std::chrono::steady_clock::now();
  const HangVerdict verdict = judge_hang(facts);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2));
  EXPECT_EQ(suspects(verdict.report), std::vector<int>{1234});
  EXPECT_EQ(verdict.report.classes.size(), 3u);
}

TEST(HangRules, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(HangRule::kNotKnown); ++i) names.insert(name_of(static_cast<HangRule>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(HangRule::kNotKnown) + 1);
}

TEST(HangRules, ARankThatIsBehindInTorchsFlightRecorderIsTheSuspect) {
  const HangVerdict verdict =
      judge_hang(facts_of(but({in_call().torch(17, "started")}, 2, {in_lock().torch(16, "completed")})));
  EXPECT_TRUE(verdict.is_hung);
  EXPECT_EQ(verdict.rule, HangRule::kBehind);
  EXPECT_EQ(suspects(verdict.report), std::vector<int>{2});
  EXPECT_EQ(
      verdict.report.cause,
      "rank 2 on n3 is not in nccl:all_reduce 17 of group default_pg, in which 3 ranks wait; rank 2 does not move "
      "(futex_wait_queue), in main (train.py:55)");
}

TEST(HangRules, ARankThatComputesAndIsBehindInTorchIsReportedLate) {
  const auto ranks = but({in_call().torch(17, "started")}, 2, {in_call().torch(16, "completed")});
  EXPECT_FALSE(judge_hang(facts_of(ranks)).is_hung);
  const HangVerdict late = judge_hang(facts_of(ranks, kLateFactor));
  EXPECT_TRUE(late.is_hung);
  EXPECT_EQ(suspects(late.report), std::vector<int>{2});
}

TEST(HangRules, ARankThatIsBehindAndWantsACoreIsReportedLate) {
  std::vector<Track> ranks(4, {in_allreduce(17)});
  ranks[2] = {in_allreduce(16)};
  EXPECT_TRUE(judge_hang(facts_of(ranks)).is_hung);
  ranks[2] = changes(in_allreduce(16), in_allreduce(16).state("R"));
  EXPECT_FALSE(judge_hang(facts_of(ranks)).is_hung);
  const HangVerdict late = judge_hang(facts_of(ranks, 4 * kLateFactor));
  EXPECT_TRUE(late.is_hung);
  EXPECT_EQ(suspects(late.report), std::vector<int>{2});
}

TEST(HangRules, ARankThatGetsAPartOfACoreGetsMoreTime) {
  std::vector<Track> ranks(4, {in_recv()});
  ranks[2] = {in_call().uses(500)};
  EXPECT_FALSE(judge_hang(facts_of(ranks, kLateFactor)).is_hung);
  EXPECT_FALSE(judge_hang(facts_of(ranks, 2 * kLateFactor - 1)).is_hung);
  EXPECT_TRUE(judge_hang(facts_of(ranks, 2 * kLateFactor)).is_hung);
  ranks[2] = {in_call().uses(110)};
  EXPECT_TRUE(judge_hang(facts_of(ranks, 4 * kLateFactor)).is_hung) << "but at most four times as much";
}

TEST(HangRules, GroupsOfTorchAreNotCompared) {
  std::vector<Track> ranks(4, {in_call().torch(17, "started")});
  ranks[2] = ranks[3] = {in_call().torch(5, "started", "tp")};
  const HangVerdict verdict = judge_hang(facts_of(ranks, kLateFactor));
  EXPECT_NE(verdict.rule, HangRule::kBehind);
  ranks[1] = {in_lock().torch(16, "completed")};
  EXPECT_EQ(suspects(judge_hang(facts_of(ranks, kLateFactor)).report), std::vector<int>{1});
}

TEST(HangRules, ProgressInTorchIsWork) {
  std::vector<Track> ranks(4, {in_call().torch(17, "started")});
  ranks[1] = changes(in_call().torch(16, "started"), in_call().torch(16, "completed"));
  const HangVerdict verdict = judge_hang(facts_of(ranks, 10));
  EXPECT_FALSE(verdict.is_hung);
  EXPECT_EQ(verdict.rule, HangRule::kWorking);
}

}  // namespace
}  // namespace muster::model::hang_rules_test
