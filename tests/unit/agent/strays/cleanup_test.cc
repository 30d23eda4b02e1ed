// The clean-up of a host with real processes: exactly what dead jobs have left, and nothing else.
#include "agent/strays/cleanup.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/net.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::cleanup_test {
namespace {

using namespace std::chrono_literals;
using testing::Playground;
using testing::processes_with;
using testing::Strays;

class CleanupTest : public ::testing::Test {
 protected:
  pid_t stray(const std::vector<std::string>& env, const std::string& token) {
    return strays_.start(env, token, ::getuid());
  }
  static bool lives(pid_t pid) { return Strays::lives(pid); }
  // Its lock file was changed long ago.
  SessionDir session(const std::string& job, const std::string& root = "") {
    auto made = SessionDir::create(root.empty() ? ground_.session_root() : root, job, "0");
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move(*made);
  }
  static void make_old(const std::string& session_path) {
    const auto long_ago = std::filesystem::file_time_type::clock::now() - 1h;
    if (std::filesystem::exists(session_path + "/alive")) {
      std::filesystem::last_write_time(session_path + "/alive", long_ago);
    }
    std::filesystem::last_write_time(session_path, long_ago);
  }
  CleanupReport clean(bool dry_run, const std::string& job = "") {
    CleanupOptions options;
    options.scan.session_root = ground_.session_root();
    options.scan.shared_memory = shared_memory_;
    options.scan.job_prefix = job.empty() ? job_ : job;  // never what another test on this machine has left
    options.dry_run = dry_run;
    auto report = clean_up(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? std::move(*report) : CleanupReport{};
  }

  Playground ground_;
  std::string shared_memory_ = ground_.path();
  std::string job_ = base::JobId::random().str();
  std::string marker_ = "MUSTER_JOB_ID=" + job_;
  Strays strays_{ground_.victim("sleeper")};
};

TEST_F(CleanupTest, EndsTheMarkedProcessesOfADeadJobAndItsDirectory) {
  SessionDir dead = session(job_);
  dead.close_lock();
  make_old(dead.path());
  const pid_t marked = stray({marker_, "MUSTER_SESSION_DIR=" + dead.path()}, job_ + "-marked");
  const pid_t other = stray({"MUSTER_JOB_ID=" + base::JobId::random().str()}, job_ + "-other");
  const auto begin = std::chrono::steady_clock::now();
  const CleanupReport dry = clean(true);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 2s);
  ASSERT_EQ(dry.remains.size(), 2U);
  for (const Remains& remains : dry.remains) EXPECT_EQ(remains.state, RemainsState::kFound);
  EXPECT_TRUE(lives(marked));
  EXPECT_TRUE(std::filesystem::exists(dead.path()));

  const CleanupReport report = clean(false);
  ASSERT_EQ(report.remains.size(), 2U);
  for (const Remains& remains : report.remains) EXPECT_EQ(remains.state, RemainsState::kGone) << remains.problem;
  EXPECT_FALSE(lives(marked));
  EXPECT_TRUE(lives(other));
  EXPECT_FALSE(ground_.has_sessions());
  EXPECT_TRUE(clean(false).remains.empty());
}

TEST_F(CleanupTest, WithoutASessionDirectoryTheProcessItselfIsEnough) {
  const pid_t marked = stray({marker_}, job_ + "-marked");
  const CleanupReport report = clean(false);
  ASSERT_EQ(report.remains.size(), 1U);
  EXPECT_EQ(report.remains[0].pid, marked);
  EXPECT_EQ(report.remains[0].found_by, "environment");
  EXPECT_FALSE(lives(marked));
}

TEST_F(CleanupTest, ALivingJobIsNotTouchedAlsoUnderAnotherRoot) {
  const SessionDir here = session(job_);
  make_old(here.path());
  const std::string elsewhere = base::JobId::random().str();
  const SessionDir there = session(elsewhere, ground_.path());
  make_old(there.path());
  const pid_t rank = stray({marker_, "MUSTER_SESSION_DIR=" + here.path()}, job_ + "-rank");
  const pid_t hidden = stray({"MUSTER_JOB_ID=" + elsewhere, "MUSTER_SESSION_DIR=" + there.path()}, job_ + "-hidden");
  EXPECT_EQ(clean(false).alive_jobs, std::vector<std::string>{job_});
  EXPECT_EQ(clean(false, elsewhere).alive_jobs, std::vector<std::string>{elsewhere});
  EXPECT_TRUE(lives(rank));
  EXPECT_TRUE(lives(hidden));
  EXPECT_TRUE(std::filesystem::exists(here.path()));
}

TEST_F(CleanupTest, TheLeaseMustHavePassed) {
  SessionDir dead = session(job_);
  dead.write_lease(std::chrono::steady_clock::now() + 1h);
  dead.close_lock();
  make_old(dead.path());
  const pid_t rank = stray({marker_}, job_ + "-rank");
  const CleanupReport report = clean(false);
  EXPECT_TRUE(report.remains.empty());
  ASSERT_EQ(report.waiting_jobs.size(), 1U);
  EXPECT_EQ(report.waiting_jobs[0].job_id, job_);
  EXPECT_GT(report.waiting_jobs[0].lease_left, 59min);
  EXPECT_TRUE(lives(rank));
}

TEST_F(CleanupTest, ASessionThatIsJustMadeIsLeftToItsAgent) {
  SessionDir young = session(job_);
  young.close_lock();
  const CleanupReport report = clean(false);
  EXPECT_TRUE(report.remains.empty());
  EXPECT_EQ(report.waiting_jobs.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(young.path()));
}

TEST_F(CleanupTest, ADirectoryThatIsNoSessionIsNotRemovedBecauseAVariableNamesIt) {
  const std::string precious = ground_.path() + "/" + job_ + "-work";
  std::filesystem::create_directories(precious);
  std::ofstream(precious + "/result") << "42";
  stray({marker_, "MUSTER_SESSION_DIR=" + precious}, job_ + "-rank");
  EXPECT_EQ(clean(false).remains.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(precious + "/result"));
}

// Another user can make muster-<uid> a link to our own folders while we have no job on this host.
TEST_F(CleanupTest, LeavesFoldersBehindALinkAlone) {
  const std::string home = ground_.path() + "/home";
  const std::string precious = home + "/" + job_ + "-2024";
  std::filesystem::create_directories(precious);
  std::filesystem::permissions(home, std::filesystem::perms(0700));
  std::ofstream(precious + "/result") << "42";
  make_old(precious);
  std::filesystem::create_directory_symlink(home, session_root(ground_.session_root()));
  const CleanupReport report = clean(false);
  EXPECT_TRUE(report.remains.empty());
  EXPECT_EQ(report.problems.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(precious + "/result"));
  std::filesystem::remove(session_root(ground_.session_root()));  // the link: the same folder is no session either
  std::filesystem::rename(home, session_root(ground_.session_root()));
  EXPECT_TRUE(clean(false).remains.empty());
  EXPECT_TRUE(std::filesystem::exists(session_root(ground_.session_root()) + "/" + job_ + "-2024/result"));
}

TEST_F(CleanupTest, AProcessWithoutItsEnvironmentIsFoundByTheNotes) {
  SessionDir dead = session(job_);
  const pid_t cleared = stray({}, job_ + "-cleared");
  const auto info = read_process(cleared);
  ASSERT_TRUE(info);
  ASSERT_TRUE(write_note(dead.path(), "ranks", fmt::format("{} {}\n", cleared, info->start_time)).ok());
  dead.close_lock();
  make_old(dead.path());
  const CleanupReport report = clean(false);
  ASSERT_EQ(report.remains.size(), 2U);
  EXPECT_FALSE(lives(cleared));
  EXPECT_TRUE(std::ranges::any_of(report.remains, [](const Remains& each) { return each.found_by == "session"; }));
}

TEST_F(CleanupTest, SocketsAtWhichNobodyListens) {
  const std::string parent = session_root(ground_.session_root());
  ASSERT_TRUE(base::make_private_directory(parent).ok());
  const std::string path = fmt::format("{}/job-{}.sock", parent, job_);
  const auto address = base::unix_address(path);
  ASSERT_TRUE(address);
  base::UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_TRUE(clean(false).remains.empty());
  listener.reset();
  const CleanupReport report = clean(false);
  ASSERT_EQ(report.remains.size(), 1U);
  EXPECT_EQ(report.remains[0].state, RemainsState::kGone) << report.remains[0].problem;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CleanupTest, SharedMemoryOfADeadJob) {
  SessionDir dead = session(job_);
  dead.close_lock();
  make_old(dead.path());
  std::ofstream(shared_memory_ + "/muster-" + job_ + "-ring") << "x";
  std::ofstream(shared_memory_ + "/muster-" + job_ + "ring") << "not named after the job";
  const CleanupReport report = clean(false);
  ASSERT_EQ(report.remains.size(), 2U);
  for (const Remains& remains : report.remains) EXPECT_EQ(remains.state, RemainsState::kGone) << remains.problem;
  EXPECT_FALSE(std::filesystem::exists(shared_memory_ + "/muster-" + job_ + "-ring"));
  EXPECT_TRUE(std::filesystem::exists(shared_memory_ + "/muster-" + job_ + "ring"));
}

// Its job may be that warden's, under a root that is not looked at.
TEST_F(CleanupTest, SharedMemoryWithoutASessionStaysWhileAWardenHasNone) {
  const std::string program = ground_.path() + "/muster-warden";
  std::filesystem::copy_file(ground_.victim("sleeper"), program);
  Strays wardens(program);
  wardens.start({}, job_ + "-warden", ::getuid());
  const std::string file = shared_memory_ + "/muster-" + job_;
  std::ofstream(file) << "x";
  EXPECT_TRUE(clean(false).remains.empty());
  EXPECT_TRUE(std::filesystem::exists(file));
}

// Alone in a PID namespace: on the host another test may have a warden.
TEST_F(CleanupTest, SharedMemoryWithoutASessionOrAnyWarden) {
  if (::getuid() != 0) GTEST_SKIP() << "a PID namespace of one's own needs root";
  const std::string file = shared_memory_ + "/muster-" + job_;
  std::ofstream(file) << "x";
  testing::as_agent(0, [this] {
    ASSERT_EQ(::unshare(CLONE_NEWPID | CLONE_NEWNS), 0);
    testing::as_agent(0, [this] {
      ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
      ASSERT_EQ(::mount("proc", "/proc", "proc", 0, nullptr), 0);
      const CleanupReport report = clean(false);
      ASSERT_EQ(report.remains.size(), 1U);
      EXPECT_EQ(report.remains[0].state, RemainsState::kGone) << report.remains[0].problem;
    });
  });
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace muster::agent::cleanup_test
