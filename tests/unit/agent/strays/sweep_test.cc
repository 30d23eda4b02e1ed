// The sweep and the audit: exactly the processes of one job, of one user, and only when nobody lives who owns them.
#include "agent/strays/sweep.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "agent/proc/environ_scan.h"
#include "agent/proc/session_dir.h"
#include "agent/process/warden.h"
#include "agent/strays/cleanup.h"
#include "base/ids.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::sweep_test {
namespace {

using namespace std::chrono_literals;
using testing::AgentChild;
using testing::as_agent;
using testing::kOrdinaryUid;
using testing::Playground;
using testing::processes_with;
using testing::Strays;

class SweepTest : public ::testing::Test {
 protected:
  // A process with just this environment, of this user; ended at the end of the test.
  pid_t stray(const std::vector<std::string>& env, const std::string& token, uid_t uid = ::getuid()) {
    return strays_.start(env, token, uid);
  }
  static bool lives(pid_t pid) { return Strays::lives(pid); }
  WardenOptions options() const { return {.job_id = job_, .agent_id = "0", .session_root = ground_.session_root()}; }

  SweepReport sweep_now(bool is_known_dead) const {
    SweepOptions options{.session_root = ground_.session_root(), .is_known_dead = is_known_dead};
    options.wait_for_lock = 50ms;
    auto report = sweep(job_, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : SweepReport{};
  }

  Playground ground_;
  std::string job_ = base::JobId::random().str();
  std::string marker_ = "MUSTER_JOB_ID=" + job_;
  Strays strays_{ground_.victim("sleeper")};
};

TEST_F(SweepTest, TakesExactlyTheMarkedProcesses) {
  const pid_t marked = stray({"A=1", marker_}, job_ + "-marked");
  const pid_t longer = stray({marker_ + "x"}, job_ + "-longer");
  const pid_t inside = stray({"X=" + marker_}, job_ + "-inside");
  const pid_t nested = stray({"MUSTER_JOB_ID=zzzzzzz2", "OUTER=" + marker_}, job_ + "-nested");
  const pid_t argument = stray({}, job_ + " " + marker_);
  const SweepReport report = sweep_now(true);
  ASSERT_EQ(report.killed.size(), 1U);
  EXPECT_EQ(report.killed[0].pid, marked);
  EXPECT_EQ(report.killed[0].command, "sleeper");
  EXPECT_FALSE(lives(marked));
  for (const pid_t other : {longer, inside, nested, argument}) EXPECT_TRUE(lives(other));
}

TEST_F(SweepTest, AnotherUsersProcessIsNotTouched) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can start another user's process";
  const pid_t alice = stray({marker_}, job_ + "-alice", kOrdinaryUid);
  EXPECT_TRUE(sweep_now(true).killed.empty());
  as_agent(kOrdinaryUid + 1, [this] { EXPECT_TRUE(sweep_now(true).killed.empty()); });
  EXPECT_TRUE(lives(alice));
  as_agent(kOrdinaryUid, [this] { EXPECT_EQ(sweep_now(true).killed.size(), 1U); });
  EXPECT_FALSE(lives(alice));
}

TEST_F(SweepTest, ALivingSessionKeepsItsProcesses) {
  auto session = SessionDir::create(ground_.session_root(), job_, "0");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=" + session->path()}, job_ + "-rank");
  const SweepReport report = sweep_now(true);
  EXPECT_EQ(report.alive, std::vector<std::string>{session->path()});
  EXPECT_TRUE(report.killed.empty());
  EXPECT_TRUE(lives(rank));
  session->close_lock();
  EXPECT_EQ(sweep_now(true).removed, std::vector<std::string>{session->path()});
  EXPECT_FALSE(lives(rank));
  EXPECT_FALSE(ground_.has_sessions());
}

// An agent and a warden that are stopped, with so much left of their lease. The agent plays on when it is continued.
class StoppedKeepers {
 public:
  StoppedKeepers(const WardenOptions& options, const std::string& victim, std::chrono::milliseconds lease)
      : agent_(::getuid(), [&](const auto& ready) {
          auto warden = Warden::start(options);
          ASSERT_TRUE(warden.ok()) << warden.status();
          ASSERT_TRUE(warden->spawn(testing::request(0, {victim, options.job_id})).ok());
          testing::Seen seen;
          ASSERT_TRUE(testing::poll_until(*warden, seen, [&] { return !seen.started.empty(); }));
          ASSERT_TRUE(testing::stop_process(warden->pid()));
          warden->renew_lease(std::chrono::steady_clock::now() + lease);
          ready(warden->pid());
          ASSERT_TRUE(testing::poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
          EXPECT_TRUE(warden->close().ok());
        }) {
    warden_ = agent_.wait_until_ready();
    EXPECT_TRUE(testing::stop_process(agent_.pid()));
  }
  bool are_stopped() const {
    const auto agent = read_process(agent_.pid());
    const auto warden = read_process(warden_);
    return agent && warden && agent->state == 'T' && warden->state == 'T';
  }
  void kill_now() { agent_.kill_now(); }
  int wait() { return agent_.wait(); }

 private:
  AgentChild agent_;
  pid_t warden_ = 0;
};

TEST_F(SweepTest, StoppedKeepersAreContinuedAndEndTheirJobWhenItsLeaseIsOver) {
  StoppedKeepers keepers(options(), ground_.victim("sleeper"), 0ms);
  ASSERT_TRUE(keepers.are_stopped());
  const SweepReport report = sweep_now(true);
  EXPECT_EQ(report.continued.size(), 2U);
  EXPECT_TRUE(report.alive.empty());
  EXPECT_EQ(testing::left_after(job_, testing::gone_within()), 0U);
  EXPECT_EQ(keepers.wait(), 0);
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(SweepTest, StoppedKeepersOfARunningJobGoOn) {
  StoppedKeepers keepers(options(), ground_.victim("sleeper"), 1h);
  ASSERT_TRUE(keepers.are_stopped());
  const SweepReport report = sweep_now(true);
  EXPECT_EQ(report.continued.size(), 2U);
  EXPECT_EQ(report.alive.size(), 1U);
  EXPECT_EQ(processes_with(job_).size(), 1U);
  keepers.kill_now();
  EXPECT_EQ(keepers.wait(), SIGKILL);
  EXPECT_EQ(testing::left_after(job_, testing::gone_within()), 0U);
}

TEST_F(SweepTest, CleanupEndsAJobWhoseKeepersAreStopped) {
  StoppedKeepers keepers(options(), ground_.victim("sleeper"), 0ms);
  ASSERT_TRUE(keepers.are_stopped());
  CleanupOptions cleanup;
  cleanup.scan.session_root = ground_.session_root();
  cleanup.scan.job_prefix = job_;
  cleanup.dry_run = true;
  ASSERT_TRUE(clean_up(cleanup).ok());
  EXPECT_TRUE(keepers.are_stopped()) << "a dry run touches nothing";
  cleanup.dry_run = false;
  ASSERT_TRUE(clean_up(cleanup).ok());
  EXPECT_EQ(testing::left_after(job_, testing::gone_within()), 0U);
  EXPECT_EQ(keepers.wait(), 0);
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(SweepTest, ALivingSessionUnderAnotherRootKeepsItsProcesses) {
  std::filesystem::create_directory(ground_.path() + "/elsewhere");
  auto session = SessionDir::create(ground_.path() + "/elsewhere", job_, "0");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=" + session->path()}, job_ + "-rank");
  const pid_t left = stray({marker_, "MUSTER_SESSION_DIR=/gone/" + job_ + "-1"}, job_ + "-left");
  EXPECT_EQ(sweep_now(true).killed.size(), 1U);
  EXPECT_FALSE(lives(left));
  EXPECT_TRUE(lives(rank));
  session->close_lock();
  EXPECT_EQ(sweep_now(true).killed.size(), 1U);
  EXPECT_FALSE(lives(rank));
}

TEST_F(SweepTest, ADeadSessionIsKnownByAnyOfItsNames) {
  auto session = SessionDir::create(ground_.session_root(), job_, "0");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=/" + session->path()}, job_ + "-rank");
  session->close_lock();
  EXPECT_EQ(sweep_now(true).killed.size(), 1U);
  EXPECT_FALSE(lives(rank));
}

// As when no descriptor is left: that it cannot be seen is no sign of death.
TEST_F(SweepTest, ASessionThatCannotBeLookedAtKeepsItsProcesses) {
  auto session = SessionDir::create(ground_.session_root(), job_, "0");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=" + session->path()}, job_ + "-rank");
  std::filesystem::remove(session->path() + "/alive");
  std::filesystem::create_symlink("elsewhere", session->path() + "/alive");
  const SweepReport report = sweep_now(true);
  EXPECT_EQ(report.alive, std::vector<std::string>{session->path()});
  EXPECT_TRUE(report.killed.empty());
  EXPECT_TRUE(lives(rank));
}

TEST_F(SweepTest, WithoutItsOwnerTheLeaseMustPassAndTwoLooksAgree) {
  auto session = SessionDir::create(ground_.session_root(), job_, "0");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=" + session->path()}, job_ + "-rank");
  session->write_lease(std::chrono::steady_clock::now() + 1h);
  session->close_lock();
  EXPECT_EQ(sweep_now(false).alive.size(), 1U);
  EXPECT_TRUE(lives(rank));
  const auto again = SessionDir::create(ground_.session_root(), job_, "0");
  ASSERT_TRUE(again.ok()) << again.status();
  again->write_lease(std::chrono::steady_clock::now() - 1s);
  const_cast<SessionDir&>(*again).close_lock();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(sweep_now(false).killed.size(), 1U);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 2s);
  EXPECT_FALSE(lives(rank));
}

TEST_F(SweepTest, TheCallersAncestorsAreNeverCandidates) {
  const std::string victim = ground_.victim("sleeper");
  // A shell of the job that sweeps the job: it and the sweeping process stay.
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("MUSTER_JOB_ID", job_.c_str(), 1);
    char* const arguments[] = {const_cast<char*>("/proc/self/exe"), const_cast<char*>("--gtest_filter=SweepInside.*"),
                               nullptr};
    ::execv("/proc/self/exe", arguments);
    ::_exit(9);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

// The part of the test above that runs inside of the job.
TEST(SweepInside, Runs) {
  const char* job = ::getenv("MUSTER_JOB_ID");
  if (job == nullptr) GTEST_SKIP() << "only within TheCallersAncestorsAreNeverCandidates";
  const pid_t pid = ::fork();
  if (pid == 0) {
    const auto report = sweep(job, {.session_root = "/tmp", .is_known_dead = true});
    ::_exit(report.ok() && report->killed.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST_F(SweepTest, TheScanNamesSessionsAndIsComplete) {
  const pid_t marked = stray({marker_, "MUSTER_SESSION_DIR=/x/y"}, job_ + "-marked");
  const auto scan = scan_environments(job_);
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_TRUE(scan->is_complete);
  ASSERT_EQ(scan->found.size(), 1U);
  EXPECT_EQ(scan->found[0].info.pid, marked);
  EXPECT_EQ(scan->found[0].session_dir, "/x/y");
}

TEST_F(SweepTest, TheAuditSparesOtherLivingSessionsOfTheJob) {
  auto session = SessionDir::create(ground_.session_root(), job_, "1");
  ASSERT_TRUE(session.ok()) << session.status();
  const pid_t other = stray({marker_, "MUSTER_SESSION_DIR=" + session->path()}, job_ + "-other");
  const pid_t escaped = stray({marker_, "MUSTER_SESSION_DIR=/gone/" + job_ + "-0"}, job_ + "-escaped");
  const auto report = kill_marked(job_, "/gone/" + job_ + "-0", {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->killed.size(), 1U);
  EXPECT_EQ(report->killed[0].pid, escaped);
  EXPECT_TRUE(lives(other));
}

TEST_F(SweepTest, OnlyJobIdsAreAccepted) {
  EXPECT_EQ(sweep("../etc").status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::agent::sweep_test
