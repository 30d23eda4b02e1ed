// The decision which processes are strays, over made-up hosts.
#include "agent/strays/stray_rule.h"

#include <gtest/gtest.h>

namespace muster::agent::stray_rule_test {
namespace {

const std::string kDeadJob = "deadjob2";
const std::string kLivingJob = "livejob2";

ProcessInfo process(pid_t pid, pid_t parent, const std::string& command, std::uint64_t start = 100, pid_t session = 0) {
  ProcessInfo info;
  info.pid = pid;
  info.parent = parent;
  info.group = pid;
  info.session = session == 0 ? pid : session;
  info.state = 'S';
  info.start_time = start;
  info.command = command;
  return info;
}

// pid 1, and what each test adds; all are ours.
HostSight host(const std::vector<ProcessInfo>& processes) {
  HostSight sight;
  sight.table.push_back(process(1, 0, "init", 1));
  sight.table.insert(sight.table.end(), processes.begin(), processes.end());
  for (const ProcessInfo& info : sight.table) sight.own.insert(info.pid);
  sight.jobs = {{kDeadJob, JobState::kDead}, {kLivingJob, JobState::kLives}};
  return sight;
}

std::vector<std::string> found(const HostSight& sight) {
  std::vector<std::string> words;
  for (const Stray& stray : find_strays(sight)) {
    words.push_back(fmt::format("{} {} {}", stray.info.pid, stray.job_id, stray.found_by));
  }
  return words;
}

using Words = std::vector<std::string>;

struct JudgeRow {
  const char* what;
  std::vector<SessionSight> sessions;
  JobState state;
};

TEST(StrayRule, WhenAJobLives) {
  const SessionSight locked{.is_locked = true, .lease_has_passed = true};
  const SessionSight held{.is_locked = true, .lease_has_passed = false};
  const SessionSight leased{.is_locked = false, .lease_has_passed = false};
  const SessionSight over{.is_locked = false, .lease_has_passed = true};
  const std::vector<JudgeRow> rows = {
      {"no session", {}, JobState::kDead},
      {"nobody, no lease", {over}, JobState::kDead},
      {"the lease runs", {leased}, JobState::kLeaseRuns},
      {"somebody holds the lock", {locked}, JobState::kLives},
      {"both", {held}, JobState::kLives},
      {"one attempt is over, the next lives", {over, held}, JobState::kLives},
      {"one is over, the lease of the other runs", {over, leased}, JobState::kLeaseRuns},
      {"all are over", {over, over}, JobState::kDead}};
  for (const JudgeRow& row : rows) EXPECT_EQ(judge_job(row.sessions), row.state) << row.what;
}

TEST(StrayRule, ByEnvironmentAndDescent) {
  HostSight sight =
      host({process(10, 1, "rank"), process(11, 10, "child"), process(12, 11, "grandchild"), process(20, 1, "other")});
  sight.marked = {{10, kDeadJob}};
  EXPECT_EQ(found(sight), (Words{"10 deadjob2 environment", "11 deadjob2 descendant", "12 deadjob2 descendant"}));
}

TEST(StrayRule, NotWhileTheJobLivesOrItsLeaseRunsOrIsUnknown) {
  HostSight sight = host({process(10, 1, "rank"), process(11, 10, "child")});
  sight.marked = {{10, kLivingJob}};
  EXPECT_EQ(found(sight), Words{});
  sight.jobs[kLivingJob] = JobState::kLeaseRuns;
  EXPECT_EQ(found(sight), Words{});
  sight.jobs.clear();
  EXPECT_EQ(found(sight), Words{});
}

TEST(StrayRule, AJobWithinADeadJobIsItsOwn) {
  // A rank of the dead job has started an hvdrun, whose rank is marked with the job that lives; its children are spared
  // though they carry no mark, and so is what the launcher has started with the dead job's environment.
  HostSight sight = host({process(10, 1, "rank"), process(11, 10, "hvdrun"), process(12, 11, "ssh"),
                          process(20, 10, "inner"), process(21, 20, "of-inner")});
  sight.marked = {{10, kDeadJob}, {11, kDeadJob}, {12, kDeadJob}, {20, kLivingJob}};
  EXPECT_EQ(found(sight), Words{"10 deadjob2 environment"});
}

TEST(StrayRule, NeverCandidates) {
  struct Row {
    const char* what;
    ProcessInfo info;
  };
  const std::vector<Row> rows = {{"the caller", process(50, 40, "agent-1234")},
                                 {"its ancestor", process(40, 1, "bash")},
                                 {"sshd", process(60, 1, "sshd")},
                                 {"a launcher", process(61, 1, "hvdrun")},
                                 {"a daemon", process(62, 1, "launcherd")},
                                 {"a warden", process(63, 1, "muster-warden")},
                                 {"a zombie", [] {
                                    ProcessInfo info = process(64, 1, "rank");
                                    info.state = 'Z';
                                    return info;
                                  }()}};
  for (const Row& row : rows) {
    HostSight sight = host({row.info});
    sight.spared = {50, 40, 1};
    sight.marked = {{row.info.pid, kDeadJob}};
    EXPECT_EQ(found(sight), Words{}) << row.what;
  }
}

TEST(StrayRule, AnAgentIsKnownByItsWardenAndSparesWhatIsBelow) {
  HostSight sight = host({process(10, 1, "agent-1234-x86"), process(11, 10, "muster-warden"), process(12, 11, "rank"),
                          process(13, 10, "helper")});
  sight.marked = {{10, kDeadJob}, {12, kDeadJob}, {13, kDeadJob}};
  EXPECT_EQ(found(sight), Words{});
}

TEST(StrayRule, AnotherUsersProcessIsNotOurs) {
  HostSight sight = host({process(10, 1, "rank"), process(11, 10, "sudo")});
  sight.marked = {{10, kDeadJob}};
  sight.own.erase(11);
  EXPECT_EQ(found(sight), Words{"10 deadjob2 environment"});
}

TEST(StrayRule, NotesOfTheSession) {
  HostSight sight =
      host({process(30, 1, "cleared", 200, 10), process(31, 1, "moved", 150), process(32, 1, "other", 99, 10)});
  sight.claims = {{.job_id = kDeadJob, .ranks = {{.pid = 10, .not_before = 100}}, .in_cgroup = {31}}};
  EXPECT_EQ(found(sight), (Words{"31 deadjob2 cgroup", "30 deadjob2 session"}));
}

TEST(StrayRule, NotedDescendantsAreKnownByPidAndStart) {
  HostSight sight = host({process(40, 1, "daemon", 300, 40), process(41, 1, "reused", 400, 41)});
  sight.claims = {{.job_id = kDeadJob,
                   .ranks = {},
                   .in_cgroup = {},
                   .noted = {{.pid = 40, .not_before = 300}, {.pid = 41, .not_before = 399}}}};
  EXPECT_EQ(found(sight), Words{"40 deadjob2 note"});
}

TEST(StrayRule, AReusedPidIsNotTheRank) {
  // The rank's pid now names a process that began long after it: its session is another one.
  HostSight sight = host({process(10, 1, "shell", 5000, 10), process(30, 10, "editor", 5001, 10)});
  sight.claims = {{.job_id = kDeadJob, .ranks = {{.pid = 10, .not_before = 100}}, .in_cgroup = {}}};
  EXPECT_EQ(found(sight), Words{});
}

TEST(StrayRule, AnOlderChildIsOfAnotherParent) {
  HostSight sight = host({process(10, 1, "rank", 500), process(11, 10, "older", 400)});
  sight.marked = {{10, kDeadJob}};
  EXPECT_EQ(found(sight), Words{"10 deadjob2 environment"});
}

TEST(StrayRule, WhatCouldNotBeReadIsLeftAlone) {
  HostSight sight = host({process(10, 1, "rank"), process(11, 10, "hangs"), process(12, 10, "child")});
  sight.marked = {{10, kDeadJob}};
  sight.unreadable = {11};
  EXPECT_EQ(found(sight), (Words{"10 deadjob2 environment", "12 deadjob2 descendant"}));
  sight.all_read = false;
  EXPECT_EQ(found(sight), Words{"10 deadjob2 environment"});
}

TEST(StrayRule, TwiceMeansTheSameProcessOfTheSameJob) {
  const Stray first{process(10, 1, "rank", 100), kDeadJob, "environment"};
  Stray reused = first;
  reused.info.start_time = 101;
  Stray renamed = first;
  renamed.job_id = kLivingJob;
  Stray executed = first;  // exec keeps pid and start time
  executed.info.command = "other";
  EXPECT_EQ(seen_twice({first}, {first}).size(), 1U);
  EXPECT_EQ(seen_twice({first}, {executed}).size(), 1U);
  EXPECT_TRUE(seen_twice({first}, {reused}).empty());
  EXPECT_TRUE(seen_twice({first}, {renamed}).empty());
  EXPECT_TRUE(seen_twice({}, {first}).empty());
  EXPECT_TRUE(seen_twice({first}, {}).empty());
}

}  // namespace
}  // namespace muster::agent::stray_rule_test
