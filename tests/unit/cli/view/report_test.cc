#include "cli/view/report.h"

#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/view/job_view.h"

namespace muster::cli::report_test {
namespace {

using launcherd::JobOutcome;
using launcherd::StopCause;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

model::RankEnd exited(int rank, int code) {
  model::RankEnd end;
  end.rank = rank;
  end.host = "n2";
  end.pid = 42;
  end.pid_inside = 42;
  end.exit_code = code;
  return end;
}

JobOutcome good(int ranks) {
  JobOutcome outcome;
  for (int rank = 0; rank < ranks; ++rank) outcome.ends.push_back(exited(rank, 0));
  outcome.ranks = ranks;
  outcome.hosts = 1;
  outcome.elapsed = milliseconds(1234);
  return outcome;
}

TEST(RootCause, RankAndHostAreMarked) {
  EXPECT_EQ(mark_rank("rank 3 (worker) on n2 (pid 42): exit code 1", true),
            "\x1b[1;31mrank 3 (worker) on n2\x1b[0m (pid 42): exit code 1");
  EXPECT_EQ(mark_rank("rank 3 on fe80::1: exit code 1", true), "\x1b[1;31mrank 3 on fe80::1\x1b[0m: exit code 1");
  EXPECT_EQ(mark_rank("rank 3 on n2: exit code 1", false), "rank 3 on n2: exit code 1");
}

TEST(Duration, UnitsThatPeopleRead) {
  EXPECT_EQ(format_duration(milliseconds(42)), "0.04 s");
  EXPECT_EQ(format_duration(milliseconds(1250)), "1.2 s");
  EXPECT_EQ(format_duration(milliseconds(200'000)), "3 min 20 s");
  EXPECT_EQ(format_duration(std::chrono::minutes(125)), "2 h 5 min");
}

TEST(RootCause, NamesRankHostAndBothPids) {
  model::RankEnd end = exited(3, 1);
  EXPECT_EQ(format_root_cause(end), "rank 3 on n2 (pid 42): exit code 1");
  end.pid_inside = 5;
  EXPECT_EQ(format_root_cause(end), "rank 3 on n2 (pid 42, 5 in its namespace): exit code 1");
  end.pid = 0;
  EXPECT_EQ(format_root_cause(end), "rank 3 on n2: exit code 1");
  EXPECT_EQ(format_root_cause(end, "worker"), "rank 3 (worker) on n2: exit code 1");
}

TEST(Outcome, PlainSuccessIsSilentButOnATerminal) {
  EXPECT_THAT(format_outcome(good(2), false), IsEmpty());
  EXPECT_THAT(format_outcome(good(2), true), ElementsAre("2 ranks on 1 host, 1.2 s: ended with exit code 0"));
}

TEST(Outcome, FailureShowsTailAndConsequences) {
  JobOutcome outcome = good(3);
  outcome.ends[1] = exited(1, 7);
  outcome.root = 1;
  outcome.exit_code = 7;
  outcome.cause = StopCause::kPolicy;
  outcome.stderr_tail = "one\ntwo\x1b[2J\n";
  const auto lines = format_outcome(outcome, false);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_EQ(lines[0], "the last lines of its stderr:");
  EXPECT_EQ(lines[1], "  | one");
  EXPECT_EQ(lines[2], "  | two\\x1b[2J");  // a program's bytes do not reach the terminal through us
  EXPECT_EQ(lines.back(), "3 ranks on 1 host, 1.2 s: failed; exit code 7 is that of rank 1 on n2");
}

JobOutcome raised(const char* exception) {
  JobOutcome outcome = good(4);
  for (int rank : {1, 2, 3}) outcome.ends[static_cast<std::size_t>(rank)] = exited(rank, 1);
  outcome.root = 1;
  outcome.exit_code = 1;
  outcome.cause = StopCause::kPolicy;
  outcome.stderr_tail =
      fmt::format("Traceback (most recent call last):\n  File \"x.py\", line 3, in f\n{}\n", exception);
  return outcome;
}

TEST(Outcome, RepeatsNoTracebackThatWasShown) {
  const JobOutcome outcome = raised("ValueError: \x1b");
  const std::string last = "4 ranks on 1 host, 1.2 s: failed; exit code 1 is that of rank 1 on n2";
  EXPECT_THAT(format_outcome(outcome, false, true),
              ElementsAre("ValueError: \\x1b (its traceback is above)", "then ranks 2-3 ended with exit code 1", last));
  EXPECT_THAT(format_outcome(outcome, false, false),
              ElementsAre("the last lines of its stderr:", "  | Traceback (most recent call last):",
                          "  |   File \"x.py\", line 3, in f", "  | ValueError: \\x1b",
                          "then ranks 2-3 ended with exit code 1", last));
  JobOutcome interrupted = outcome;
  interrupted.cause = StopCause::kInterrupt;
  EXPECT_EQ(format_outcome(interrupted, false, true).size(), 6U) << "the traceback may not have been shown";
}

TEST(Outcome, NamesRanksThatFailedAlike) {
  JobOutcome outcome = raised("ValueError: x");
  outcome.alike_ranks = {3};
  const auto lines = format_outcome(outcome, false, true);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1], "ranks 1,3 failed alike");
  EXPECT_EQ(lines[2], "then rank 2 ended with exit code 1");
}

TEST(Outcome, RepeatsOtherLines) {
  JobOutcome outcome = raised("");
  outcome.stderr_tail = "1\n2\n3\n4\n5\n";
  EXPECT_EQ(format_outcome(outcome, false, true).size(), 8U);
}

TEST(Outcome, HasHints) {
  JobOutcome outcome = raised("ModuleNotFoundError: No module named 'torch'");
  outcome.alike_ranks = {2, 3};
  for (model::RankEnd& end : outcome.ends) end.facts.program = "/usr/bin/python3";
  outcome.ends[3].host = "n3";
  EXPECT_THAT(format_outcome(outcome, false, true)[1],
              HasSubstr("on n2 and n3, python3 is /usr/bin/python3, which has no module 'torch'"));
}

TEST(StoredReport, HasRootCauseAndHints) {
  v1::ExitReport report;
  EXPECT_THAT(format_report(report), IsEmpty());
  report.set_root_cause_rank(3);
  v1::RankEnd& end = *report.add_ends();
  end.set_rank(3);
  end.set_host("n2");
  end.set_pid(42);
  end.set_kind(v1::RANK_END_KIND_EXITED);
  end.set_exit_code(1);
  end.mutable_facts()->set_program("/usr/bin/python3");
  report.add_stderr_tail("  File \"x.py\", line 3, in f");
  report.add_stderr_tail("ModuleNotFoundError: No module named 'torch'");
  report.add_alike_ranks(1);
  report.add_alike_ranks(2);
  EXPECT_THAT(format_report(report),
              ElementsAre("rank 3 on n2 (pid 42): exit code 1", "ModuleNotFoundError: No module named 'torch'",
                          HasSubstr("on n2, python3 is /usr/bin/python3"), HasSubstr("pip install torch"),
                          "ranks 1-3 failed alike"));
  report.set_root_cause_rank(-1);
  EXPECT_THAT(format_report(report), IsEmpty());
}

TEST(Outcome, WhoFailedInASpawnIsToldWhatToDoOnce) {
  JobOutcome outcome = good(1);
  outcome.ends[0] = exited(0, 15);
  outcome.root = 0;
  outcome.exit_code = 15;
  outcome.cause = StopCause::kPolicy;
  outcome.stderr_tail = "MPI_Comm_spawn(command=hostname) failed\n";
  auto lines = format_outcome(outcome, false);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2],
            "its MPI_Comm_spawn failed, which Muster supports for Open MPI alone: start all processes with the job, as "
            "with `hvdrun "
            "-np 1 ./manager : -np 4 ./worker`");
  outcome.ends[0].spawn_refused = true;  // its agent has said it
  EXPECT_EQ(format_outcome(outcome, false).size(), 3u);
}

TEST(Outcome, StraysAreCounted) {
  JobOutcome outcome = good(1);
  outcome.strays_killed = 2;
  outcome.stray_lines = {"n1: pid 5 (sleep): descendant", "n1: pid 6 (sleep): descendant"};
  const auto lines = format_outcome(outcome, false);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("2 processes outlived their ranks"));
  EXPECT_THAT(lines[3], HasSubstr("2 leftover processes killed"));
}

TEST(Outcome, HostsThatFailedAreAllNamed) {
  JobOutcome outcome;
  outcome.ranks = 4;
  outcome.hosts = 2;
  outcome.cause = StopCause::kHostFailed;
  outcome.exit_code = 125;
  outcome.host_failures = {{"n1", "host n1: refused"}, {"n2", "host n2: no such name"}};
  EXPECT_THAT(format_outcome(outcome, false),
              ElementsAre("host n1: refused", "host n2: no such name", HasSubstr("not started")));
}

TEST(Outcome, HostsThatFailAlikeAreOneLine) {
  launcherd::JobOutcome outcome;
  outcome.cause = launcherd::StopCause::kHostFailed;
  outcome.exit_code = 125;
  for (const char* const host : {"n1", "n2", "n3"}) {
    outcome.host_failures.push_back({host, fmt::format("host {}: refused; try: ssh {} true", host, host)});
    outcome.unclean.push_back({host, fmt::format("{}: something may be left there: muster cleanup -H {}", host, host)});
  }
  EXPECT_THAT(
      format_outcome(outcome, false),
      ElementsAre("3 hosts n[1-3]: refused; try: ssh HOST true",
                  "3 hosts n[1-3]: something may be left there: muster cleanup -H HOST", HasSubstr("not started")));
}

TEST(Report, TenThousandHostsAreFewShortLines) {
  JobOutcome outcome;
  outcome.exit_code = 125;
  outcome.cause = launcherd::StopCause::kHostFailed;
  for (int i = 1; i <= 10'000; ++i) {
    const std::string host = fmt::format("n{:05}", i);
    outcome.host_failures.push_back({host, fmt::format("host {}: nothing accepts connections at 10.0.{}.{} port 22 "
                                                       "(connection refused); start sshd there",
                                                       host, i / 250, i % 250)});
    outcome.unclean.push_back({host, fmt::format("{}: could not be searched: error {}", host, i / 10)});
  }
  const std::clock_t begin = std::clock();  // this process's own time: other processes may have the cores
  const auto lines = format_outcome(outcome, false);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);  // takes 0.1 s
  ASSERT_EQ(lines.size(), 1u + 20 + 1 + 1);
  EXPECT_EQ(
      lines[0],
      "10,000 hosts n[00001-10000]: nothing accepts connections on port 22 (connection refused); start sshd there");
  EXPECT_EQ(lines[21], "and 9,801 more hosts, for other reasons");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 400u) << line;
}

TEST(Report, FormatsBindings) {
  EXPECT_EQ(
      format_binding({.rank = 3, .host = "n2", .local_rank = 1, .cpus = {4, 5, 6}, .gpus = {1}, .devices = {"GPU-a"}}),
      "rank 3 on n2, local rank 1: cores 4-6, GPU 1 (GPU-a)");
  EXPECT_EQ(format_binding({.rank = 0, .host = "n1", .gpus = {0}, .devices = {"intel:0.1"}}),
            "rank 0 on n1, local rank 0: not bound to cores, GPU 0.1");
  EXPECT_EQ(format_binding({.rank = 0, .host = "n1"}), "rank 0 on n1, local rank 0: not bound to cores, no GPU");
}

}  // namespace
}  // namespace muster::cli::report_test
