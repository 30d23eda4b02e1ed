// kill -9 of the agent, of the warden, and of both in the same instant, at random moments of a job's life.
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "agent/process/warden.h"
#include "agent/strays/sweep.h"
#include "base/file.h"
#include "base/ids.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::warden_kill_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;

constexpr int kMoments = 20;

enum class Target { kAgent, kWarden, kBoth };

struct Case {
  const char* name;
  ContainLevel level;
  bool as_root;
  Target target;
};

class KillTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (::geteuid() != 0 && GetParam().as_root) GTEST_SKIP() << "only root can do this";
#if defined(__SANITIZE_THREAD__)
    if (GetParam().level == ContainLevel::kPidns && !GetParam().as_root) {
      GTEST_SKIP() << "a process with ThreadSanitizer's own thread cannot make a user namespace";
    }
#endif
    uid_ = ::geteuid() != 0 ? ::getuid() : GetParam().as_root ? 0 : kOrdinaryUid;
  }

  std::vector<SpawnRequest> victims(const std::string& job) {
    std::vector<SpawnRequest> requests;
    const auto add = [&](const char* name, bool stays) {
      std::vector<std::string> argv{ground_.victim(name), job};
      if (stays) argv.emplace_back("stay");
      requests.push_back(request(static_cast<int>(requests.size()), argv));
    };
    for (const bool stays : {true, false}) {
      add("setsid_child", stays);
      add("double_fork_daemon", stays);
    }
    add("ignore_term", false);
    add("clear_environ", false);
    add("hold_stdout", false);
    add("sleeper", false);
    return requests;
  }

  // An agent that does all that a real one does: starts ranks, looks at events, and cleans up after its warden.
  static void play_agent(const WardenOptions& options, const std::vector<SpawnRequest>& requests,
                         const std::function<void(pid_t)>& ready) {
    auto warden = Warden::start(options);
    ASSERT_TRUE(warden.ok()) << warden.status();
    ready(warden->pid());
    bool is_alive = true;
    std::size_t asked = 0;
    std::size_t ended = 0;
    for (const SpawnRequest& one : requests) {
      is_alive = is_alive && warden->spawn(one).ok();
      if (is_alive) ++asked;
    }
    while (is_alive) {
      pollfd wanted{warden->fd(), POLLIN, 0};
      ::poll(&wanted, 1, -1);
      const auto events = warden->read_events();
      is_alive = events.ok();
      if (!is_alive) break;
      for (const WardenEvent& event : *events) ended += std::holds_alternative<RankExited>(event) ? 1U : 0U;
    }
    const Warden::Aftermath aftermath = warden->clean_up_without_warden();
    // Each rank is told of exactly once. A command that could not be sent any more was answered by its error.
    EXPECT_GE(ended + aftermath.ranks.size() + aftermath.not_started.size(), asked);
    EXPECT_TRUE(aftermath.empty.stuck.empty());
    EXPECT_TRUE(warden->close().ok());
  }

  Playground ground_;
  uid_t uid_ = 0;
};

TEST_P(KillTest, NothingIsLeft) {
  const unsigned seed = std::random_device{}();
  std::cout << "  seed " << seed << "\n";
  std::mt19937 random(seed);
  double worst_ms = 0;
  for (int moment = 0; moment < kMoments; ++moment) {
    const std::string job = base::JobId::random().str();
    const WardenOptions options{
        .job_id = job, .agent_id = "0", .session_root = ground_.session_root(), .contain = GetParam().level};
    const auto requests = victims(job);
    AgentChild agent(uid_, [&](const auto& ready) { play_agent(options, requests, ready); });
    const pid_t warden = agent.wait_until_ready();
    ASSERT_GT(warden, 0);
    ::poll(nullptr, 0, static_cast<int>(random() % 40));
    const auto before = std::chrono::steady_clock::now();
    if (GetParam().target != Target::kWarden) agent.kill_now();
    if (GetParam().target != Target::kAgent) ::kill(warden, SIGKILL);
    const int status = agent.wait();
    if (GetParam().target == Target::kWarden) {
      EXPECT_EQ(status, 0);
    } else {
      EXPECT_EQ(status, SIGKILL);
    }
    if (GetParam().target == Target::kBoth) {
      as_agent(uid_, [&] {
        const auto report = sweep(job, {.session_root = ground_.session_root(), .is_known_dead = true});
        ASSERT_TRUE(report.ok()) << report.status();
        EXPECT_TRUE(report->alive.empty());
        EXPECT_TRUE(report->stuck.empty());
      });
    }
    EXPECT_TRUE(testing::eventually(testing::gone_within(), [this] { return !ground_.has_sessions(); }))
        << "moment " << moment;
    EXPECT_EQ(left_after(job, testing::gone_within()), 0U) << "moment " << moment;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
    worst_ms = std::max(worst_ms, took.count());
  }
  std::cout << "  all gone within " << worst_ms << " ms at worst\n";
}

// The hardest one: it has left the session of the ranks and emptied its environment, and nothing holds it.
class BothKilledTest : public KillTest {};

TEST_P(BothKilledTest, NothingIsLeftOfADaemonWithoutEnvironmentThatTheWardenHasSeen) {
  const std::string job = base::JobId::random().str();
  const WardenOptions options{
      .job_id = job, .agent_id = "0", .session_root = ground_.session_root(), .contain = GetParam().level};
  const std::string script = "env -i setsid sh -c 'sleep 1000; :' " + job + " & exec sleep 1000";
  AgentChild agent(uid_, [&](const auto& ready) { play_agent(options, {request(0, {"sh", "-c", script})}, ready); });
  const pid_t warden = agent.wait_until_ready();
  ASSERT_GT(warden, 0);
  ASSERT_TRUE(testing::eventually(10s, [&] { return testing::processes_with(job).size() >= 1; }));
  const std::string note = ground_.session_root() + "/muster-" + std::to_string(uid_) + "/" + job + "-0/descendants";
  const bool is_noted = GetParam().level == ContainLevel::kSubreaper || uid_ != 0;  // where nothing else holds it
  if (is_noted && GetParam().level != ContainLevel::kPidns) {
    const auto has_line = [&note] {
      const auto content = base::read_file(note);
      return content.ok() && !content->empty();
    };
    ASSERT_TRUE(testing::eventually(20s, has_line)) << note;
  }
  for (const int signo : {SIGSTOP, SIGKILL}) {
    ::kill(agent.pid(), signo);
    ::kill(warden, signo);
  }
  EXPECT_EQ(agent.wait(), SIGKILL);
  as_agent(uid_, [&] {
    const auto report = sweep(job, {.session_root = ground_.session_root(), .is_known_dead = true});
    ASSERT_TRUE(report.ok()) << report.status();
  });
  EXPECT_EQ(left_after(job, testing::gone_within()), 0U);
  EXPECT_FALSE(ground_.has_sessions());
}

// A launcher that gives up at once: TERM reaches an agent that is just making its session.
class AgentTerminatedTest : public KillTest {};

TEST_P(AgentTerminatedTest, NothingIsLeftWhenItStarts) {
  std::mt19937 random(std::random_device{}());
  for (int moment = 0; moment < 5 * kMoments; ++moment) {
    const WardenOptions options{.job_id = base::JobId::random().str(),
                                .agent_id = "0",
                                .session_root = ground_.session_root(),
                                .contain = GetParam().level};
    AgentChild agent(uid_, [&](const auto& ready) {
      ready(::getpid());
      const auto warden = Warden::start(options);
      for (;;) ::pause();
    });
    ASSERT_GT(agent.wait_until_ready(), 0);
    const timespec while_it_starts{0, static_cast<long>(random() % 8'000'000)};
    ::ppoll(nullptr, 0, &while_it_starts, nullptr);
    ::kill(agent.pid(), SIGTERM);
    EXPECT_EQ(agent.wait(), SIGTERM);
    ASSERT_TRUE(testing::eventually(testing::gone_within(), [this] { return !ground_.has_sessions(); }))
        << "moment " << moment;
  }
}

const Case kCases[] = {{"AgentRootAuto", ContainLevel::kAuto, true, Target::kAgent},
                       {"AgentRootCgroup", ContainLevel::kCgroup, true, Target::kAgent},
                       {"AgentRootSubreaper", ContainLevel::kSubreaper, true, Target::kAgent},
                       {"AgentUserAuto", ContainLevel::kAuto, false, Target::kAgent},
                       {"AgentUserPidns", ContainLevel::kPidns, false, Target::kAgent},
                       {"WardenRootAuto", ContainLevel::kAuto, true, Target::kWarden},
                       {"WardenRootCgroup", ContainLevel::kCgroup, true, Target::kWarden},
                       {"WardenRootSubreaper", ContainLevel::kSubreaper, true, Target::kWarden},
                       {"WardenUserAuto", ContainLevel::kAuto, false, Target::kWarden},
                       {"WardenUserPidns", ContainLevel::kPidns, false, Target::kWarden},
                       {"BothRootAuto", ContainLevel::kAuto, true, Target::kBoth},
                       {"BothRootCgroup", ContainLevel::kCgroup, true, Target::kBoth},
                       {"BothRootSubreaper", ContainLevel::kSubreaper, true, Target::kBoth},
                       {"BothUserAuto", ContainLevel::kAuto, false, Target::kBoth},
                       {"BothUserPidns", ContainLevel::kPidns, false, Target::kBoth}};

constexpr int kLevels = 5;  // for each target

INSTANTIATE_TEST_SUITE_P(Levels, KillTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(Levels, AgentTerminatedTest, ::testing::ValuesIn(kCases, kCases + kLevels),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Levels, BothKilledTest, ::testing::ValuesIn(std::end(kCases) - kLevels, std::end(kCases)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster::agent::warden_kill_test
