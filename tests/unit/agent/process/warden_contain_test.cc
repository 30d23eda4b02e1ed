// Every containment level that this machine allows, as root and as an ordinary user, against victims that try to stay.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <gtest/gtest.h>

#include "agent/proc/cgroup.h"
#include "agent/process/warden.h"
#include "agent/strays/sweep.h"
#include "base/file.h"
#include "base/ids.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::warden_contain_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;

struct Case {
  const char* name;
  ContainLevel level;
  bool as_root;
  bool delegated;  // the agent starts in a cgroup that belongs to its user
  const char* expected;
};

// A cgroup under ours that belongs to the ordinary user; the calling process moves into it.
class DelegatedCgroup {
 public:
  explicit DelegatedCgroup(bool wanted) {
    if (!wanted) return;
    auto made = Cgroup::create("muster-test-" + base::random_hex(4));
    if (!made.ok()) return;
    path_ = made->path();
    for (const char* file : {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
      if (::chown((path_ + file).c_str(), kOrdinaryUid, kOrdinaryUid) != 0) path_.clear();
    }
  }
  ~DelegatedCgroup() {
    if (path_.empty()) return;
    testing::eventually(1s, [this] { return ::rmdir(path_.c_str()) == 0; });
    EXPECT_FALSE(std::filesystem::exists(path_)) << "a cgroup is left";
  }
  DelegatedCgroup(const DelegatedCgroup&) = delete;
  DelegatedCgroup& operator=(const DelegatedCgroup&) = delete;
  bool is_made() const { return !path_.empty(); }
  void enter() const {
    if (!path_.empty()) std::ofstream(path_ + "/cgroup.procs") << "0";
  }

 private:
  std::string path_;
};

class ContainTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) {
      if (GetParam().as_root || GetParam().delegated) GTEST_SKIP() << "only root can set this up";
      uid_ = ::getuid();
    } else {
      uid_ = GetParam().as_root ? 0 : kOrdinaryUid;
    }
    delegated_ = std::make_unique<DelegatedCgroup>(GetParam().delegated);
    if (GetParam().delegated && !delegated_->is_made()) GTEST_SKIP() << "no cgroup can be made here";
    // Whether this machine allows the level; auto is allowed always.
    bool is_allowed = true;
    run_agent([&](Warden&) {}, &is_allowed);
    if (!is_allowed) GTEST_SKIP() << "this machine does not allow " << GetParam().name;
  }
  void TearDown() override {
    EXPECT_EQ(left_after(job_, testing::gone_within()), 0U);
    EXPECT_FALSE(ground_.has_sessions());
    delegated_.reset();
  }

  WardenOptions options() const {
    return {.job_id = job_, .agent_id = "0", .session_root = ground_.session_root(), .contain = GetParam().level};
  }

  // The scenario with a warden of the wanted level, in a child of the wanted user. With `is_allowed`, that the level is
  // not possible is no failure.
  void run_agent(const std::function<void(Warden&)>& scenario, bool* is_allowed = nullptr) {
    int refused[2];
    ASSERT_EQ(::pipe2(refused, O_CLOEXEC), 0);
    delegate_and_run([&] {
      auto warden = Warden::start(options());
      if (!warden.ok() && is_allowed != nullptr) {
        std::cout << "  " << warden.status() << "\n";
        EXPECT_EQ(::write(refused[1], "x", 1), 1);
        return;
      }
      ASSERT_TRUE(warden.ok()) << warden.status();
      scenario(*warden);
      EXPECT_EQ(warden->containment().name(), GetParam().expected) << warden->containment().note;
      EXPECT_TRUE(warden->close().ok());
    });
    ::close(refused[1]);
    char byte = 0;
    if (is_allowed != nullptr) *is_allowed = ::read(refused[0], &byte, 1) == 0;
    ::close(refused[0]);
  }

  void delegate_and_run(const std::function<void()>& scenario) {
    as_agent(::getuid(), [&] {
      delegated_->enter();
      as_agent(uid_, scenario);
    });
  }

  // All victims that leave something behind, each as a rank that lives on.
  std::vector<SpawnRequest> victims() {
    std::vector<SpawnRequest> requests;
    for (const char* name : {"setsid_child", "double_fork_daemon"}) {
      requests.push_back(request(static_cast<int>(requests.size()), {ground_.victim(name), job_, "stay"}));
    }
    for (const char* name : {"ignore_term", "clear_environ"}) {
      requests.push_back(request(static_cast<int>(requests.size()), {ground_.victim(name), job_}));
    }
    return requests;
  }

  static void start_all(Warden& warden, const std::vector<SpawnRequest>& requests, Seen& seen) {
    for (const SpawnRequest& one : requests) ASSERT_TRUE(warden.spawn(one).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return seen.started.size() == requests.size(); }));
    for (const RankStarted& started : seen.started) ASSERT_TRUE(read_until(started.stdout_fd.get(), "ready"));
  }

  // An agent that runs out of its lease and then does as `hangs` does, which does not come back: it is killed, and its
  // warden leaves nothing.
  void expect_killed(const std::function<void(Warden&, Seen&)>& hangs) {
    const auto requests = victims();
    WardenOptions impatient = options();
    impatient.agent_patience = 300ms;
    AgentChild parent(::getuid(), [&](const auto& ready) {
      delegated_->enter();
      const int status = wait_status_of_agent(uid_, [&] {
        auto warden = Warden::start(impatient);
        ASSERT_TRUE(warden.ok()) << warden.status();
        Seen seen;
        start_all(*warden, requests, seen);
        warden->renew_lease(std::chrono::steady_clock::now() + 100ms);
        ready(::getpid());
        ready(warden->pid());
        hangs(*warden, seen);
      });
      EXPECT_EQ(status, SIGKILL);
    });
    const pid_t agent = parent.wait_until_ready();
    const pid_t warden = parent.wait_until_ready();
    ASSERT_GT(warden, 0);
    EXPECT_EQ(left_after(job_, testing::gone_within()), 0U);
    EXPECT_TRUE(testing::eventually(10s, [agent] { return testing::is_gone(agent); })) << "the agent is left";
    EXPECT_TRUE(testing::eventually(10s, [warden] { return testing::is_gone(warden); })) << "the warden is left";
    for (const pid_t left : {agent, warden}) {
      if (!testing::is_gone(left)) ::kill(left, SIGKILL);
    }
    EXPECT_EQ(parent.wait(), 0);
  }

  Playground ground_;
  std::string job_ = base::JobId::random().str();
  uid_t uid_ = 0;
  std::unique_ptr<DelegatedCgroup> delegated_;
};

TEST_P(ContainTest, NormalEndTakesTheLeftovers) {
  const std::vector<SpawnRequest> requests{request(0, {ground_.victim("setsid_child"), job_}),
                                           request(1, {ground_.victim("double_fork_daemon"), job_}),
                                           request(2, {ground_.victim("hold_stdout"), job_})};
  run_agent([&](Warden& warden) {
    Seen seen;
    start_all(warden, requests, seen);
    ASSERT_TRUE(poll_until(warden, seen, [&] { return seen.exited.size() == 3; }));
    for (const RankExited& exited : seen.exited) EXPECT_EQ(exited.wait_status, 0);
    const std::vector<pid_t> left = processes_with(job_);
    ASSERT_TRUE(warden.finish(50ms).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.empty[0].killed.size(), 3U);
    for (const Leftover& leftover : seen.empty[0].killed) {
      EXPECT_FALSE(leftover.command.empty());
      // By the number that it has here, outside of any namespace.
      EXPECT_FALSE(leftover.is_pid_inside);
      EXPECT_NE(std::ranges::find(left, leftover.pid), left.end()) << leftover.pid;
    }
    EXPECT_TRUE(seen.empty[0].stuck.empty());
  });
}

TEST_P(ContainTest, StopTakesEverything) {
  const auto requests = victims();
  run_agent([&](Warden& warden) {
    Seen seen;
    start_all(warden, requests, seen);
    ASSERT_TRUE(warden.stop(100ms).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.exited.size(), requests.size());
    EXPECT_GE(seen.empty[0].killed.size(), 2U);
  });
}

TEST_P(ContainTest, StopContinuesAStoppedWarden) {
  const auto requests = victims();
  run_agent([&](Warden& warden) {
    Seen seen;
    start_all(warden, requests, seen);
    ASSERT_TRUE(testing::stop_process(warden.pid()));
    ASSERT_TRUE(warden.stop(100ms).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.exited.size(), requests.size());
  });
}

// As when both were stopped and the agent's timer ends it.
TEST_P(ContainTest, EndOfTheAgentContinuesAStoppedWarden) {
  const auto requests = victims();
  AgentChild parent(::getuid(), [&](const auto& ready) {
    delegated_->enter();
    const int status = wait_status_of_agent(uid_, [&] {
      auto warden = Warden::start(options());
      ASSERT_TRUE(warden.ok()) << warden.status();
      Seen seen;
      start_all(*warden, requests, seen);
      ready(::getpid());
      ready(warden->pid());
      for (;;) ::pause();
    });
    EXPECT_EQ(status, SIGKILL);
  });
  const pid_t agent = parent.wait_until_ready();
  const pid_t warden = parent.wait_until_ready();
  ASSERT_GT(warden, 0);
  EXPECT_TRUE(testing::stop_process(warden));
  ::kill(agent, SIGKILL);
  EXPECT_EQ(left_after(job_, testing::gone_within()), 0U);
  EXPECT_TRUE(testing::eventually(10s, [warden] { return testing::is_gone(warden); })) << "the warden is left";
  if (!testing::is_gone(warden)) ::kill(warden, SIGKILL);
  EXPECT_EQ(parent.wait(), 0);
}

TEST_P(ContainTest, AForkStormEnds) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "instrumented for threads, which it has none of, the warden is too slow to outrun a storm";
#endif
  const auto storm = request(0, {ground_.victim("fork_storm"), job_});
  run_agent([&](Warden& warden) {
    Seen seen;
    start_all(warden, {storm}, seen);
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(warden.stop(0ms).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_LT(std::chrono::steady_clock::now() - before, testing::gone_within());
    EXPECT_TRUE(seen.empty[0].stuck.empty());
  });
}

TEST_P(ContainTest, PauseStopsAndContinues) {
  const auto sleeper = request(0, {"sh", "-c", "echo ready; while :; do echo tick; sleep 0.02; done", job_});
  run_agent([&](Warden& warden) {
    Seen seen;
    start_all(warden, {sleeper}, seen);
    const int out = seen.started[0].stdout_fd.get();
    ASSERT_TRUE(read_until(out, "tick"));
    ASSERT_TRUE(warden.pause(true).ok());
    char buffer[4096];
    // Quiet for 200 ms, within 2 s of the command.
    ASSERT_TRUE(testing::eventually(2s, [&] {
      while (::read(out, buffer, sizeof buffer) > 0) {
      }
      return !testing::eventually(200ms, [&] { return ::read(out, buffer, sizeof buffer) > 0; });
    }));
    ASSERT_TRUE(warden.pause(false).ok());
    EXPECT_TRUE(read_until(out, "tick"));
    ASSERT_TRUE(warden.pause(true).ok());
    ASSERT_TRUE(warden.stop(1s).ok());
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.empty.empty(); }));
    EXPECT_EQ(seen.exited.at(0).wait_status, SIGTERM);
  });
}

TEST_P(ContainTest, TheLeaseRunsOutOnAStoppedAgent) {
  const auto requests = victims();
  AgentChild agent(::getuid(), [&](const auto& ready) {
    delegated_->enter();
    as_agent(uid_, [&] {
      auto warden = Warden::start(options());
      ASSERT_TRUE(warden.ok()) << warden.status();
      Seen seen;
      start_all(*warden, requests, seen);
      warden->renew_lease(std::chrono::steady_clock::now() + 100ms);
      ready(::getpid());
      ::raise(SIGSTOP);
      ASSERT_TRUE(poll_until(*warden, seen, [&] { return !seen.empty.empty(); }));
      EXPECT_EQ(seen.expired.size(), 1U);
      EXPECT_EQ(seen.exited.size(), requests.size());
      EXPECT_TRUE(warden->close().ok());
    });
  });
  const pid_t stopped = agent.wait_until_ready();
  ASSERT_GT(stopped, 0);
  EXPECT_EQ(left_after(job_, testing::gone_within()), 0U);
  ::kill(stopped, SIGCONT);
  EXPECT_EQ(agent.wait(), 0);
}

TEST_P(ContainTest, AnAgentThatStaysStoppedIsKilledAfterItsLease) {
  expect_killed([](Warden&, Seen&) { ::raise(SIGSTOP); });
}

TEST_P(ContainTest, AnAgentThatHangsWhileItEndsItsJobIsKilled) {
  expect_killed([](Warden& warden, Seen& seen) {
    ASSERT_TRUE(poll_until(warden, seen, [&] { return !seen.expired.empty(); }));
    ASSERT_TRUE(warden.stop(0ms).ok());
    for (;;) ::pause();
  });
}

const Case kCases[] = {{"RootAuto", ContainLevel::kAuto, true, false, "cgroup+pidns"},
                       {"RootCgroup", ContainLevel::kCgroup, true, false, "cgroup"},
                       {"RootPidns", ContainLevel::kPidns, true, false, "pidns"},
                       {"RootSubreaper", ContainLevel::kSubreaper, true, false, "subreaper"},
                       {"UserAuto", ContainLevel::kAuto, false, false, "subreaper"},
                       {"UserDelegatedCgroup", ContainLevel::kAuto, false, true, "cgroup"},
                       {"UserPidns", ContainLevel::kPidns, false, false, "pidns"}};

INSTANTIATE_TEST_SUITE_P(Levels, ContainTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster::agent::warden_contain_test
