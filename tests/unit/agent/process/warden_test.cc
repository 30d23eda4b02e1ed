#include "agent/process/warden.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::warden_test {
namespace {

using namespace std::chrono_literals;
using testing::as_agent;
using testing::poll_until;
using testing::read_until;
using testing::request;
using testing::Seen;

// As waitpid tells it.
constexpr int exited_with(int code) {
  return code << 8;
}

using WardenTest = testing::WardenFixture;

TEST_F(WardenTest, ExitStatusesAreExact) {
  as_agent(::getuid(), [this] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {"true"})).ok());
    ASSERT_TRUE(warden->spawn(request(1, {"sh", "-c", "exit 77"})).ok());
    ASSERT_TRUE(warden->spawn(request(2, {"sh", "-c", "kill -SEGV $$"})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 3; }));
    EXPECT_EQ(seen.started.size(), 3U);
    const std::vector<int> by_rank{exited_with(0), exited_with(77), SIGSEGV};
    for (const RankExited& exited : seen.exited) {
      EXPECT_FALSE(exited.signalled_by_us);
      EXPECT_FALSE(exited.oom_killed);
      EXPECT_EQ(exited.wait_status, by_rank[static_cast<std::size_t>(exited.rank)]) << "rank " << exited.rank;
    }
    ASSERT_TRUE(warden->finish().ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_TRUE(seen.empty[0].killed.empty());
    EXPECT_TRUE(seen.empty[0].stuck.empty());
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(WardenTest, SendsFactsAboutFailedRanks) {
  as_agent(::getuid(), [this] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    SpawnRequest killed = request(1, {"sh", "-c", "kill -KILL $$"});
    killed.workdir = "/tmp";
    killed.limits = {{.resource = RLIMIT_CORE, .soft = 0, .hard = 0}};
    ASSERT_TRUE(warden->spawn(request(0, {"true"})).ok());
    ASSERT_TRUE(warden->spawn(killed).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 2; }));
    for (const RankExited& exited : seen.exited) {
      const bool failed = exited.rank == 1;
      EXPECT_EQ(exited.facts.program.ends_with("/sh"), failed) << exited.facts.program;
      EXPECT_EQ(exited.facts.program.starts_with('/'), failed);
      EXPECT_EQ(exited.facts.workdir, failed ? "/tmp" : "");
      EXPECT_EQ(exited.facts.peak_kib > 0, failed);
      EXPECT_EQ(exited.facts.free_kib.value_or(0) > 0, failed);
      EXPECT_EQ(exited.facts.core_limit, failed ? 0U : RLIM_INFINITY);
    }
    ASSERT_TRUE(warden->finish().ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(WardenTest, StopTermsThenKills) {
  const std::string sleeper = ground_.victim("sleeper");
  const std::string stubborn = ground_.victim("ignore_term");
  as_agent(::getuid(), [&] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {sleeper, job_, "7"})).ok());
    ASSERT_TRUE(warden->spawn(request(1, {sleeper, job_})).ok());
    ASSERT_TRUE(warden->spawn(request(2, {stubborn, job_})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.started.size() == 3; }));
    for (const RankStarted& started : seen.started) ASSERT_TRUE(read_until(started.stdout_fd.get(), "ready"));
    EXPECT_FALSE(warden->finish().ok());
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(warden->stop(300ms).ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
    ASSERT_EQ(seen.exited.size(), 3U);
    const std::vector<int> by_rank{exited_with(7), SIGTERM, SIGKILL};
    for (const RankExited& exited : seen.exited) {
      EXPECT_TRUE(exited.signalled_by_us);
      EXPECT_EQ(exited.wait_status, by_rank[static_cast<std::size_t>(exited.rank)]) << "rank " << exited.rank;
    }
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(WardenTest, ASecondRunAfterJobEmptyAndNoDescriptorIsLeaked) {
  as_agent(::getuid(), [this] {
    const std::size_t before = testing::open_descriptors();
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    const std::string of_warden = "/proc/" + std::to_string(warden->pid()) + "/fd";
    const auto count = [&of_warden] {
      return std::distance(std::filesystem::directory_iterator(of_warden), std::filesystem::directory_iterator());
    };
    const auto idle = count();
    for (int run = 0; run < 3; ++run) {
      Seen seen;
      for (int rank = 0; rank < 50; ++rank) ASSERT_TRUE(warden->spawn(request(rank, {"true"})).ok());
      ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 50; }));
      ASSERT_TRUE(warden->finish().ok());
      ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
      EXPECT_EQ(count(), idle);
    }
    EXPECT_TRUE(warden->close().ok());
    warden = Warden::start({.job_id = "not a job"});  // destroys the first
    EXPECT_FALSE(warden.ok());
    EXPECT_EQ(testing::open_descriptors(), before);
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(WardenTest, RanksInheritNoDescriptorAndNoStrangerMayRead) {
  as_agent(::getuid(), [this] {
    const int foreign = ::open("/dev/null", O_RDONLY);  // without close-on-exec, as a careless library would
    ASSERT_GE(foreign, 0);
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {"ls", "/proc/self/fd"})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 1; }));
    EXPECT_TRUE(read_until(seen.started.at(0).stdout_fd.get(), "0\n1\n2\n3\n"));  // 3 is its own directory
    struct stat info {};
    ASSERT_EQ(::stat(warden->session_dir().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700U);
    EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 0);
    EXPECT_TRUE(warden->close().ok());
    ::close(foreign);
  });
}

TEST_F(WardenTest, AStartFailureIsAnEventAndTheOthersRun) {
  as_agent(::getuid(), [this] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {"nosuchprogram"})).ok());
    ASSERT_TRUE(warden->spawn(request(1, {"true"}, "/nowhere")).ok());
    ASSERT_TRUE(warden->spawn(request(2, {"true"})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 1; }));
    ASSERT_EQ(seen.failed.size(), 2U);
    EXPECT_EQ(seen.failed[0].exit_code, 127);
    EXPECT_EQ(seen.failed[1].exit_code, 125);
    EXPECT_EQ(seen.failed[1].step, "workdir");
    EXPECT_TRUE(warden->close().ok());
  });
}

TEST_F(WardenTest, SignalsReachTheGroupAndAStopOvertakesSpawns) {
  const std::string sleeper = ground_.victim("sleeper");
  as_agent(::getuid(), [&] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {sleeper, job_})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.started.size() == 1; }));
    ASSERT_TRUE(read_until(seen.started[0].stdout_fd.get(), "ready"));
    ASSERT_TRUE(warden->signal(-1, SIGUSR1).ok());
    EXPECT_TRUE(read_until(seen.started[0].stdout_fd.get(), "usr1"));
    for (int rank = 1; rank <= 200; ++rank) ASSERT_TRUE(warden->spawn(request(rank, {sleeper, job_})).ok());
    ASSERT_TRUE(warden->stop(1s).ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.started.size() + seen.failed.size(), 201U);
    EXPECT_EQ(seen.exited.size(), seen.started.size());
    for (const RankStartFailed& failed : seen.failed) EXPECT_EQ(failed.message, "the job is being stopped");
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_EQ(testing::left_after(job_, 2s), 0U);
}

TEST_F(WardenTest, ASignalThatIsNotOursIsToldApart) {
  const std::string sleeper = ground_.victim("sleeper");
  const std::string stubborn = ground_.victim("ignore_term");
  as_agent(::getuid(), [&] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(warden->spawn(request(rank, {sleeper, job_})).ok());
    ASSERT_TRUE(warden->spawn(request(2, {stubborn, job_})).ok());
    Seen seen;
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.started.size() == 3; }));
    for (const RankStarted& started : seen.started) ASSERT_TRUE(read_until(started.stdout_fd.get(), "ready"));
    ::kill(seen.started[0].pid, SIGKILL);
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 1; }));
    EXPECT_FALSE(seen.exited[0].signalled_by_us);
    ASSERT_TRUE(warden->signal(2, SIGTERM).ok());
    ASSERT_TRUE(warden->signal(1, SIGTERM).ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 2; }));
    EXPECT_TRUE(seen.exited[1].signalled_by_us);
    ::kill(seen.started[2].pid, SIGKILL);  // ours was no SIGKILL
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return seen.exited.size() == 3; }));
    EXPECT_FALSE(seen.exited[2].signalled_by_us);
    EXPECT_TRUE(warden->close().ok());
  });
}

TEST_F(WardenTest, AnAgentThatIsKilledAfterItsWardenHasLeftLeavesNothing) {
  const int status = testing::wait_status_of_agent(::getuid(), [&] {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    warden->begin_close();
    Seen seen;
    EXPECT_FALSE(poll_until(*warden, seen, [] { return false; }));
    ::raise(SIGKILL);
  });
  EXPECT_EQ(status, SIGKILL);
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(WardenTest, ARenewedOrSuspendedLeaseKillsNobody) {
  const std::string sleeper = ground_.victim("sleeper");
  as_agent(::getuid(), [&] {
    WardenOptions with_margin = options();
    with_margin.lease_margin = 50ms;
    auto warden = Warden::start(with_margin);
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_TRUE(warden->spawn(request(0, {sleeper, job_})).ok());
    Seen seen;
    const auto now = [] { return std::chrono::steady_clock::now(); };
    for (int turn = 0; turn < 5; ++turn) {
      warden->renew_lease(now() + 100ms);
      poll_until(
          *warden, seen, [] { return false; }, 60ms);
    }
    warden->suspend_lease();
    poll_until(
        *warden, seen, [] { return false; }, 1200ms);
    EXPECT_TRUE(seen.expired.empty());
    EXPECT_TRUE(seen.exited.empty());
    warden->renew_lease(now());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.expired.size(), 1U);
    ASSERT_EQ(seen.exited.size(), 1U);
    EXPECT_TRUE(seen.exited[0].signalled_by_us);
    EXPECT_TRUE(warden->close().ok());
  });
}

TEST_F(WardenTest, AStoppedAgentIsKilledSomeSecondsAfterItsLease) {
  testing::AgentChild agent(::getuid(), [&](const auto& ready) {
    auto warden = Warden::start(options());
    ASSERT_TRUE(warden.ok()) << warden.status();
    warden->renew_lease(std::chrono::steady_clock::now());
    ready(warden->pid());
    ::raise(SIGSTOP);
  });
  ASSERT_GT(agent.wait_until_ready(), 0);
  EXPECT_EQ(agent.wait(), SIGKILL);
  EXPECT_TRUE(testing::eventually(2s, [this] { return !ground_.has_sessions(); }));
}

TEST_F(WardenTest, TwoAgentsCannotShareASession) {
  as_agent(::getuid(), [this] {
    auto first = Warden::start(options());
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = Warden::start(options());
    EXPECT_EQ(second.status().code(), base::Code::kAlreadyExists) << second.status();
    EXPECT_TRUE(std::filesystem::exists(first->session_dir() + "/alive"));
    EXPECT_TRUE(first->close().ok());
  });
}

TEST_F(WardenTest, WrongOptionsAreRefused) {
  EXPECT_EQ(Warden::start({.job_id = "../x", .agent_id = "0"}).status().code(), base::Code::kInvalidArgument);
  WardenOptions wrong = options();
  for (const char* id : {"", "../x", ".x", "a b"}) {
    wrong.agent_id = id;
    EXPECT_EQ(Warden::start(wrong).status().code(), base::Code::kInvalidArgument) << id;
  }
}

TEST_F(WardenTest, AMissingRootIsAnError) {
  as_agent(::getuid(), [this] {
    WardenOptions wrong = options();
    wrong.session_root = ground_.path() + "/nowhere";
    EXPECT_EQ(Warden::start(wrong).status().code(), base::Code::kNotFound);
  });
}

}  // namespace
}  // namespace muster::agent::warden_test
