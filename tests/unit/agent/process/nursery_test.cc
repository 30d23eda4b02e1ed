#include "agent/process/nursery.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::nursery_test {
namespace {

using namespace std::chrono_literals;
using testing::AgentChild;
using testing::as_agent;
using testing::eventually;
using testing::gone_within;
using testing::kOrdinaryUid;
using testing::left_after;
using testing::new_job;
using testing::poll_until;
using testing::read_until;
using testing::request;
using testing::Seen;

base::Result<Warden> wait_for(PendingWarden& pending) {
  while (true) {
    pollfd wanted{pending.fd(), POLLIN, 0};
    if (::poll(&wanted, 1, 20'000) <= 0) return base::error(base::Code::kDeadlineExceeded, "no warden came");
    MUSTER_ASSIGN_OR_RETURN(std::optional<Warden> warden, pending.take());
    if (warden) return std::move(*warden);
  }
}

base::Result<Warden> make(Nursery& nursery, const WardenOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(PendingWarden pending, nursery.ask(options));
  return wait_for(pending);
}

bool has_other_children_than(pid_t nursery) {
  for (const ProcessInfo& info : read_all_processes()) {
    if (info.parent == ::getpid() && info.pid != nursery) return true;
  }
  return false;
}

class NurseryTest : public testing::WardenFixture {
 protected:
  // Starts a rank that lives and waits for its first words.
  static void start_sleeper(Warden& warden, const std::string& program, const std::string& token, Seen& seen) {
    ASSERT_TRUE(warden.spawn(request(0, {program, token})).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.started.empty() || !seen.failed.empty(); }));
    ASSERT_EQ(seen.failed.size(), 0U) << seen.failed[0].message;
    ASSERT_TRUE(read_until(seen.started[0].stdout_fd.get(), "ready"));
  }
};

// For every level that a user may have: the same as a warden of Warden::start.
class NurseryLevelTest : public NurseryTest,
                         public ::testing::WithParamInterface<std::tuple<ContainLevel, bool /* as root */>> {};

TEST_P(NurseryLevelTest, AWardenOfTheNurseryIsAWarden) {
  const ContainLevel wanted = std::get<ContainLevel>(GetParam());
  const bool as_root = std::get<bool>(GetParam());
  if (as_root && ::geteuid() != 0) GTEST_SKIP() << "only root can do this";
#if defined(__SANITIZE_THREAD__)
  if (wanted == ContainLevel::kPidns && !as_root) {
    GTEST_SKIP() << "a process with ThreadSanitizer's own thread cannot make a user namespace";
  }
#endif
  const uid_t uid = ::geteuid() == 0 && !as_root ? kOrdinaryUid : ::getuid();
  const std::string sleeper = ground_.victim("sleeper");
  as_agent(uid, [&] {
    auto nursery = Nursery::start();
    ASSERT_TRUE(nursery.ok()) << nursery.status();
    auto warden = make(*nursery, options(wanted, job_));
    ASSERT_TRUE(warden.ok()) << warden.status();
    EXPECT_EQ(warden->containment().pidns, wanted == ContainLevel::kPidns || (wanted == ContainLevel::kAuto && as_root))
        << warden->containment().note;
    Seen seen;
    start_sleeper(*warden, sleeper, job_, seen);
    // It is our child as soon as the maker has gone.
    EXPECT_TRUE(eventually(5s, [&] {
      const auto info = read_process(warden->pid());
      return info && info->parent == ::getpid();
    }));
    ASSERT_TRUE(warden->stop(0ms).ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    ASSERT_EQ(seen.exited.size(), 1U);
    EXPECT_EQ(seen.exited[0].wait_status, SIGKILL);
    EXPECT_TRUE(warden->close().ok());
    EXPECT_FALSE(has_other_children_than(nursery->pid()));
  });
  EXPECT_FALSE(ground_.has_sessions());
}

INSTANTIATE_TEST_SUITE_P(Levels, NurseryLevelTest,
                         ::testing::Values(std::tuple(ContainLevel::kSubreaper, false),
                                           std::tuple(ContainLevel::kAuto, false),
                                           std::tuple(ContainLevel::kPidns, false),
                                           std::tuple(ContainLevel::kAuto, true)));

TEST_F(NurseryTest, SeveralAtATimeAreSeparate) {
  const std::string sleeper = ground_.victim("sleeper");
  const std::string other = new_job();
  as_agent(::getuid(), [&] {
    auto nursery = Nursery::start();
    ASSERT_TRUE(nursery.ok()) << nursery.status();
    auto first_pending = nursery->ask(options(ContainLevel::kSubreaper, job_));
    auto second_pending = nursery->ask(options(ContainLevel::kSubreaper, other));
    ASSERT_TRUE(first_pending.ok() && second_pending.ok());
    auto second = wait_for(*second_pending);
    auto first = wait_for(*first_pending);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
    Seen of_first;
    Seen of_second;
    start_sleeper(*first, sleeper, job_, of_first);
    start_sleeper(*second, sleeper, other, of_second);

    // The first warden is killed: what it leaves is ended, the second job is not touched.
    ASSERT_EQ(::kill(first->pid(), SIGKILL), 0);
    EXPECT_FALSE(poll_until(
        *first, of_first, [] { return false; }, 20s));
    const auto aftermath = first->clean_up_without_warden({nursery->pid(), second->pid()});
    ASSERT_EQ(aftermath.ranks.size(), 1U);
    EXPECT_TRUE(first->close().ok());
    EXPECT_EQ(left_after(job_, gone_within()), 0U);
    EXPECT_EQ(testing::processes_with(other).size(), 1U);

    ASSERT_TRUE(second->stop(0ms).ok());
    ASSERT_TRUE(poll_until(*second, of_second, [&] { return !of_second.empty.empty(); }));
    EXPECT_TRUE(second->close().ok());
    EXPECT_FALSE(has_other_children_than(nursery->pid()));
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(NurseryTest, WhatCannotBeMadeIsAnAnswer) {
  as_agent(::getuid(), [&] {
    auto nursery = Nursery::start();
    ASSERT_TRUE(nursery.ok()) << nursery.status();
    EXPECT_EQ(make(*nursery, options(ContainLevel::kAuto, "no such id")).status().code(), base::Code::kInvalidArgument);
    WardenOptions elsewhere = options(ContainLevel::kSubreaper, job_);
    elsewhere.session_root = ground_.path() + "/missing";
    EXPECT_NE(make(*nursery, elsewhere).status().message().find("/missing"), std::string::npos);

    auto warden = make(*nursery, options(ContainLevel::kSubreaper, job_));
    ASSERT_TRUE(warden.ok()) << warden.status();
    EXPECT_EQ(make(*nursery, options(ContainLevel::kSubreaper, job_)).status().code(), base::Code::kAlreadyExists);
    warden->begin_close();
    Seen seen;
    EXPECT_FALSE(poll_until(
        *warden, seen, [] { return false; }, 20s));
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(NurseryTest, WithoutItNothingIsMadeAndWardensGoOn) {
  const std::string sleeper = ground_.victim("sleeper");
  as_agent(::getuid(), [&] {
    auto nursery = Nursery::start();
    ASSERT_TRUE(nursery.ok()) << nursery.status();
    auto warden = make(*nursery, options(ContainLevel::kSubreaper, job_));
    ASSERT_TRUE(warden.ok()) << warden.status();
    ASSERT_EQ(::kill(nursery->pid(), SIGKILL), 0);
    pollfd ended{nursery->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ended, 1, 20'000), 1);
    EXPECT_EQ(make(*nursery, options(ContainLevel::kSubreaper, new_job())).status().code(), base::Code::kUnavailable);
    Seen seen;
    start_sleeper(*warden, sleeper, job_, seen);
    ASSERT_TRUE(warden->stop(0ms).ok());
    ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_TRUE(warden->close().ok());
  });
  EXPECT_FALSE(ground_.has_sessions());
}

TEST_F(NurseryTest, EndsWithItsAgentAndSoDoesAllElse) {
  const std::string sleeper = ground_.victim("sleeper");
  pid_t nursery_pid = 0;
  {
    AgentChild agent(::getuid(), [&](const auto& ready) {
      auto nursery = Nursery::start();
      ASSERT_TRUE(nursery.ok()) << nursery.status();
      auto warden = make(*nursery, options(ContainLevel::kSubreaper, job_));
      ASSERT_TRUE(warden.ok()) << warden.status();
      Seen seen;
      start_sleeper(*warden, sleeper, job_, seen);
      ready(nursery->pid());
      while (true) ::pause();
    });
    nursery_pid = agent.wait_until_ready();
    ASSERT_GT(nursery_pid, 0);
    EXPECT_EQ(testing::processes_with(job_).size(), 1U);
    agent.kill_now();
    agent.wait();
  }
  EXPECT_EQ(left_after(job_, gone_within()), 0U);
  EXPECT_TRUE(eventually(gone_within(), [&] {
    const auto info = read_process(nursery_pid);
    return !info || info->is_dead();
  }));
  EXPECT_TRUE(eventually(gone_within(), [this] { return !ground_.has_sessions(); }));
}

}  // namespace
}  // namespace muster::agent::nursery_test
