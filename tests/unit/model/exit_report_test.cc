#include "model/exit_report.h"

#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::model::exit_report_test {
namespace {

using std::chrono::milliseconds;
using enum EndKind;

RankEnd end(int rank, EndKind kind, int value, int at_ms) {
  RankEnd result;
  result.rank = rank;
  result.host = "n1";
  result.pid = 100 + rank;
  result.kind = kind;
  if (kind == kSignalled || (kind == kStopped && value > 0)) {
    result.signal = value;
  } else {
    result.exit_code = value;
  }
  result.at = base::MonotonicTime(milliseconds(1000 + at_ms));
  return result;
}

TEST(RankEnd, StatusIsTheShellsNumber) {
  EXPECT_EQ(end(0, kExited, 3, 0).status(), 3);
  EXPECT_EQ(end(0, kSignalled, SIGKILL, 0).status(), 137);
  EXPECT_EQ(end(0, kStartFailed, 127, 0).status(), 127);
  EXPECT_EQ(end(0, kStopped, SIGTERM, 0).status(), 143);
  EXPECT_EQ(end(0, kHostLost, 0, 0).status(), 125);
  RankEnd stopped = end(0, kStopped, 0, 0);
  stopped.exit_code = 7;
  EXPECT_EQ(stopped.status(), 7);
}

TEST(RankEnd, PeersAreToldHowItEnded) {
  EXPECT_EQ(describe_to_peers(end(0, kExited, 1, 0)), "exited with 1");
  EXPECT_EQ(describe_to_peers(end(0, kSignalled, SIGKILL, 0)), "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(describe_to_peers(end(0, kSignalled, 40, 0)), "was killed by signal 40");
  EXPECT_EQ(describe_to_peers(end(0, kStopped, SIGTERM, 0)), "was ended with the job, by signal 15 (SIGTERM)");
  EXPECT_EQ(describe_to_peers(end(0, kStopped, 0, 0)), "was ended with the job");
  EXPECT_EQ(describe_to_peers(end(0, kHostLost, 0, 0)), "was lost with its host n1");
  RankEnd detailed = end(0, kStartFailed, 127, 0);
  EXPECT_EQ(describe_to_peers(detailed), "did not start");
  detailed.detail = "./prog is not there";
  EXPECT_EQ(describe_to_peers(detailed), "did not start: ./prog is not there");
  RankEnd out_of_memory = end(0, kSignalled, SIGKILL, 0);
  out_of_memory.out_of_memory = true;
  EXPECT_EQ(describe_to_peers(out_of_memory), "ran out of memory: killed by signal 9 (SIGKILL)");
  out_of_memory = end(0, kExited, 3, 0);
  out_of_memory.out_of_memory = true;
  EXPECT_EQ(describe_to_peers(out_of_memory), "ran out of memory: exited with 3");
}

TEST(RankEnd, OnlyAPlainZeroIsNoFailure) {
  EXPECT_FALSE(end(0, kExited, 0, 0).failed());
  EXPECT_TRUE(end(0, kExited, 1, 0).failed());
  EXPECT_TRUE(end(0, kSignalled, SIGSEGV, 0).failed());
  EXPECT_TRUE(end(0, kStartFailed, 0, 0).failed());
  EXPECT_TRUE(end(0, kStopped, 0, 0).failed());
  EXPECT_TRUE(end(0, kHostLost, 0, 0).failed());
}

struct Case {
  std::string name;
  std::vector<RankEnd> ends;
  int root_rank;  // -1: none
};

class RootCause : public ::testing::TestWithParam<Case> {};

TEST_P(RootCause, IsRank) {
  const auto& ends = GetParam().ends;
  const int root = root_cause(ends);
  EXPECT_EQ(root < 0 ? -1 : ends[static_cast<std::size_t>(root)].rank, GetParam().root_rank);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RootCause,
    ::testing::Values(
        Case{"nothing_ended", {}, -1}, Case{"all_well", {end(0, kExited, 0, 0), end(1, kExited, 0, 5)}, -1},
        Case{"only_stopped", {end(0, kStopped, SIGTERM, 0), end(1, kStopped, SIGKILL, 1)}, -1},
        Case{"earliest", {end(0, kExited, 1, 90), end(1, kExited, 2, 10), end(2, kExited, 3, 95)}, 1},
        Case{"zero_exits_do_not_count", {end(0, kExited, 0, 0), end(1, kExited, 2, 10)}, 1},
        Case{"stopped_does_not_count", {end(0, kStopped, SIGTERM, 0), end(1, kExited, 2, 10)}, 1},
        Case{"signal_first_anyway", {end(0, kSignalled, SIGSEGV, 0), end(1, kExited, 1, 1)}, 0},
        Case{"signal_within_50ms_goes_first", {end(0, kExited, 1, 0), end(1, kSignalled, SIGSEGV, 50)}, 1},
        Case{"signal_after_51ms_does_not", {end(0, kExited, 1, 0), end(1, kSignalled, SIGSEGV, 51)}, 0},
        Case{"window_counts_from_the_earliest",
             {end(0, kExited, 1, 0), end(1, kExited, 1, 40), end(2, kSignalled, SIGSEGV, 80)},
             0},
        Case{"earliest_of_two_signals",
             {end(0, kExited, 1, 0), end(1, kSignalled, SIGABRT, 30), end(2, kSignalled, SIGSEGV, 20)},
             2},
        Case{"stop_signal_does_not_go_first", {end(0, kExited, 1, 0), end(1, kStopped, SIGKILL, 10)}, 0},
        Case{"tie_by_rank", {end(5, kExited, 1, 0), end(2, kExited, 1, 0), end(3, kExited, 1, 0)}, 2},
        Case{"tie_of_signals_by_rank", {end(5, kSignalled, 6, 0), end(2, kSignalled, 6, 0)}, 2},
        Case{"order_of_reports_does_not_matter", {end(1, kSignalled, SIGSEGV, 20), end(0, kExited, 1, 0)}, 1},
        Case{"start_failure", {end(0, kStartFailed, 127, 0), end(1, kStartFailed, 127, 0)}, 0},
        Case{"start_failure_explains_a_signal", {end(0, kStartFailed, 126, 0), end(1, kSignalled, SIGPIPE, 10)}, 0},
        Case{"never_again_goes_first",
             {end(0, kExited, 1, 0), end(1, kSignalled, SIGABRT, 10), end(2, kExited, 93, 20)},
             2},
        Case{"never_again_of_a_stopped_rank_does_not", {end(0, kExited, 1, 0), end(1, kStopped, 0, 10)}, 0},
        Case{"host_lost", {end(3, kHostLost, 0, 10), end(0, kExited, 1, 400)}, 3}),
    [](const auto& test) { return test.param.name; });

TEST(Describe, SaysHowItEnded) {
  EXPECT_EQ(describe(end(0, kExited, 3, 0)), "exit code 3");
  EXPECT_EQ(describe(end(0, kSignalled, SIGKILL, 0)), "signal 9 (Killed)");
  EXPECT_EQ(describe(end(0, kSignalled, 40, 0)), "signal 40");
  RankEnd hung = end(0, kSignalled, SIGKILL, 0);
  hung.detail = "it loops";
  EXPECT_EQ(describe(hung), "ended because the job hung: it loops");
  EXPECT_EQ(describe_to_peers(hung), "was ended because the job hung: it loops");
  EXPECT_EQ(describe(end(0, kStopped, SIGTERM, 0)), "signal 15 (Terminated) after the stop");
  EXPECT_EQ(describe(end(0, kStopped, 0, 0)), "exit code 0 after the stop");
  EXPECT_EQ(describe(end(0, kHostLost, 0, 0)), "host n1 was lost");
  EXPECT_EQ(describe(end(0, kStartFailed, 127, 0)), "did not start (exit code 127)");
  RankEnd detailed = end(0, kStartFailed, 127, 0);
  detailed.detail = "n1: ./prog is not there";
  EXPECT_EQ(describe(detailed), "did not start: n1: ./prog is not there");
  detailed = end(0, kHostLost, 0, 0);
  detailed.detail = "no contact for 15 s";
  EXPECT_EQ(describe(detailed), "host n1 was lost: no contact for 15 s");
}

TEST(Describe, NamesOutOfMemory) {
  RankEnd killed = end(0, kSignalled, SIGKILL, 0);
  killed.out_of_memory = true;
  EXPECT_EQ(describe(killed), "out of memory: killed by the kernel, signal 9 (Killed)");
  RankEnd exited = end(0, kExited, 1, 0);
  exited.out_of_memory = true;
  EXPECT_EQ(describe(exited), "out of memory: exit code 1 after the kernel killed a process of it");
}

TEST(RankEnd, AnAbortIsItsOwnFailureAndNeverStatusZero) {
  for (const auto& [code, status] : {std::pair(13, 13), {0, 1}, {256, 1}, {-1, 255}, {300, 44}}) {
    RankEnd aborted = end(3, kExited, 0, 0);
    aborted.abort_code = code;
    EXPECT_TRUE(aborted.failed()) << code;
    EXPECT_EQ(aborted.status(), status) << code;
    EXPECT_EQ(describe(aborted), fmt::format("called MPI_Abort({})", code));
    EXPECT_EQ(describe_to_peers(aborted), fmt::format("called MPI_Abort({})", code));
  }
}

TEST(RankEnd, ARefusedSpawnIsToldWithTheAbort) {
  RankEnd aborted = end(0, kExited, 1, 0);
  aborted.abort_code = 1;
  aborted.spawn_refused = true;
  EXPECT_EQ(aborted.status(), 1);
  EXPECT_EQ(describe(aborted), "called MPI_Abort(1) after its MPI_Comm_spawn had failed");
  EXPECT_EQ(describe_to_peers(aborted), describe(aborted));
}

TEST(RankEnd, ZeroWithoutFinalizeIsAFailure) {
  RankEnd ended = end(3, kExited, 0, 0);
  ended.without_finalize = true;
  EXPECT_TRUE(ended.failed());
  EXPECT_EQ(ended.status(), 1);
  EXPECT_EQ(describe(ended), "exit code 0 without MPI_Finalize");
  EXPECT_EQ(describe_to_peers(ended), "exited with 0 without MPI_Finalize");
  EXPECT_EQ(describe_mpi(ended), "ended without MPI_Finalize");
  EXPECT_EQ(describe_mpi(end(3, kExited, 1, 0)), "");
}

TEST(Describe, AnExitWithADetailHasBoth) {
  RankEnd stored = end(0, kExited, 13, 0);
  stored.detail = "called MPI_Abort(13)";
  EXPECT_EQ(describe(stored), "exit code 13: called MPI_Abort(13)");
}

TEST(DescribeConsequences, OfMpi) {
  std::vector<RankEnd> ends = {end(0, kSignalled, SIGKILL, 0), end(1, kExited, 13, 10), end(2, kExited, 0, 10)};
  ends[1].abort_code = 13;
  ends[2].without_finalize = true;
  EXPECT_EQ(describe_consequences(ends, 0),
            "rank 1 called MPI_Abort(13); rank 2 ended with exit code 0 without MPI_Finalize");
}

TEST(DescribeConsequences, CollapsesEqualEnds) {
  std::vector<RankEnd> ends;
  for (const int rank : {7, 0, 1, 3, 2}) ends.push_back(end(rank, kStopped, SIGTERM, 100));
  ends.push_back(end(9, kExited, 1, 60));
  ends.push_back(end(4, kExited, 1, 0));  // the root
  ends.push_back(end(5, kExited, 0, 0));  // ended well
  EXPECT_EQ(describe_consequences(ends, 6),
            "ranks 0-3,7 ended with signal 15 (Terminated) after the stop; rank 9 ended with exit code 1");
}

TEST(DescribeConsequences, ManyRanksAreOneShortLine) {
  std::vector<RankEnd> ends = {end(0, kExited, 1, 0)};
  for (int rank = 1; rank < 20'000; ++rank) {
    ends.push_back(rank % 2 == 0 ? end(rank, kHostLost, 0, 1) : end(rank, kExited, rank % 200, 1));
    ends.back().host = fmt::format("n{:05}", rank / 8);
  }
  const std::string line = describe_consequences(ends, 0);
  EXPECT_LE(line.size(), 400u) << line;
  EXPECT_NE(line.find(" more ranks failed"), std::string::npos) << line;
  EXPECT_EQ(short_rank_list({0, 1, 2, 9}), "0-2,9");
  std::vector<int> even;
  for (int rank = 0; rank < 1'000; rank += 2) even.push_back(rank);
  EXPECT_EQ(short_rank_list(even),
            "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50,52,54 and 472 more");
}

TEST(DescribeConsequences, NamesLostHostsAndFailedStarts) {
  std::vector<RankEnd> ends = {end(0, kExited, 1, 0), end(1, kHostLost, 0, 1), end(2, kHostLost, 0, 1),
                               end(3, kStartFailed, 126, 2)};
  ends[2].host = "n2";
  EXPECT_EQ(describe_consequences(ends, 0), "ranks 1-2 lost with hosts n1,n2; rank 3 did not start");
}

TEST(DescribeConsequences, StartThatAStopPreventedIsOne) {
  std::vector<RankEnd> ends = {end(0, kStopped, 0, 0), end(1, kStartFailed, 125, 5)};  // clocks differ by some ms
  ends[0].exit_code = 125;
  ends[0].detail = "the job is being stopped";
  EXPECT_EQ(root_cause(ends), 1);
  EXPECT_EQ(describe_consequences(ends, 1), "rank 0 did not start: the job is being stopped");
}

TEST(DescribeConsequences, IsEmptyWithoutAny) {
  EXPECT_EQ(describe_consequences({end(0, kExited, 1, 0), end(1, kExited, 0, 1)}, 0), "");
  EXPECT_EQ(describe_consequences({}, -1), "");
}

TEST(FormatRankList, JoinsRuns) {
  EXPECT_EQ(format_rank_list({}), "");
  EXPECT_EQ(format_rank_list({4}), "4");
  EXPECT_EQ(format_rank_list({4, 5}), "4-5");
  EXPECT_EQ(format_rank_list({7, 0, 1, 3, 2}), "0-3,7");
  EXPECT_EQ(format_rank_list({9, 9, 1, 5}), "1,5,9");
}

TEST(DescribeConsequences, SaysTheReasonOfAllStartsOnce) {
  std::vector<RankEnd> ends{end(0, kStartFailed, 127, 0), end(1, kStartFailed, 127, 1), end(2, kStartFailed, 127, 2)};
  ends[0].detail = ends[2].detail = "cannot run 'x'";
  ends[1].detail = "cannot run 'y'";
  EXPECT_EQ(describe_consequences(ends, 0),
            "rank 1 did not start: cannot run 'y'; rank 2 did not start for the same reason");
}

}  // namespace
}  // namespace muster::model::exit_report_test
