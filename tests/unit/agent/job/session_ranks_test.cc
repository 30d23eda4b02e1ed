#include "agent/job/session_ranks.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::session_ranks_test {
namespace {

using namespace testing;
using Body = v1::AgentMessage;

class SessionRanksTest : public ::testing::Test {
 protected:
  ~SessionRanksTest() override { fake_.end(); }  // the handle's destructor waits for its end

  static v1::Launch launch_of(int ranks) {
    v1::Launch launch;
    launch.set_workdir("/");
    launch.add_command("true");
    for (int i = 0; i < ranks; ++i) launch.add_ranks()->set_rank(i);
    return launch;
  }
  void start_output() { ASSERT_TRUE(output_.start(testing::unreachable_output(true)).ok()); }
  template <typename Command>
  bool orders(std::size_t n = 1) {
    return run_until(loop_, [&] { return fake_.count<Command>() >= n; });
  }
  void start(int rank, pid_t pid) {
    RankStarted event = started(rank, pid);
    ranks_.on_event(event);
  }
  void end(int rank, pid_t pid, int wait_status) {
    RankExited event = exited(rank, pid, wait_status);
    ranks_.on_event(event);
  }

  base::Loop loop_;
  FakeWarden fake_{loop_};
  Warden warden_ = fake_.take();
  SessionHost host_{loop_, {}, {}};
  SentMessages sent_;
  std::vector<std::string> notices_;
  int all_over_ = 0;
  SessionStores stores_{loop_, {}, {.ask_launcher = {}, .on_problem = {}, .on_notice = {}}};
  SessionOutput output_{loop_, {.on_tail = [](int, const std::string&) {}, .on_change = [] {}}};
  SessionRanks ranks_{host_,
                      warden_,
                      stores_,
                      output_,
                      {.send = [this](v1::AgentMessage message) { sent_.add(std::move(message)); },
                       .on_notice = [this](const std::string& text) { notices_.push_back(text); },
                       .on_problem = [](const base::Status&) {},
                       .on_all_over = [this] { ++all_over_; },
                       .on_lost = [](const std::string&) {}}};
};

TEST_F(SessionRanksTest, StartsAllRanksAndReportsTheirEnds) {
  start_output();
  ranks_.launch(launch_of(2), base::ok_status());
  ASSERT_TRUE(orders<SpawnRequest>(2));
  EXPECT_FALSE(ranks_.are_all_over());
  start(0, 10);
  EXPECT_EQ(sent_.count(Body::kLaunched), 0U);
  start(1, 11);
  EXPECT_EQ(sent_.count(Body::kLaunched), 1U);
  EXPECT_EQ(ranks_.pids(), (std::map<int, pid_t>{{0, 10}, {1, 11}}));
  end(0, 10, 0);
  EXPECT_EQ(all_over_, 0);
  end(1, 11, 3 << 8);
  EXPECT_EQ(all_over_, 1);
  EXPECT_EQ(sent_.last(Body::kRankExited).rank_exited().wait_status(), 3 << 8);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(SessionRanksTest, ReportsEachRankOfAHostThatCannotPrepare) {
  ranks_.launch(launch_of(2), base::error(base::Code::kUnavailable, "no output"));
  EXPECT_EQ(sent_.count(Body::kRankStartFailed), 2U);
  EXPECT_EQ(sent_.last(Body::kRankStartFailed).rank_start_failed().message(), "no output");
  EXPECT_EQ(sent_.count(Body::kLaunched), 1U);
  EXPECT_EQ(all_over_, 1) << "only after the last rank";
  EXPECT_EQ(fake_.count<SpawnRequest>(), 0U);
}

TEST_F(SessionRanksTest, SignalsOnceIfTheOrderSaysSo) {
  v1::SignalRanks order;
  order.set_signal(SIGUSR1);
  order.set_once(true);
  ranks_.signal_all(order);
  ranks_.signal_all(order);
  order.set_once(false);
  ranks_.signal_all(order);
  ASSERT_TRUE(orders<SignalCommand>(2));
  EXPECT_EQ(fake_.count<SignalCommand>(), 2U);
}

TEST_F(SessionRanksTest, KillsOnlySpawnedRanksThatRun) {
  start_output();
  ranks_.launch(launch_of(1), base::ok_status());
  v1::AddWorld world;
  *world.mutable_launch() = launch_of(0);
  world.mutable_launch()->add_ranks()->set_rank(5);
  ranks_.add_world(world);
  v1::KillRanks order;
  for (const int rank : {0, 5, 6}) order.add_ranks(rank);
  ranks_.kill_spawned(order);
  ASSERT_TRUE(orders<SignalCommand>());
  EXPECT_EQ(std::get<SignalCommand>(fake_.commands.back()).rank, 5);
  EXPECT_EQ(std::get<SignalCommand>(fake_.commands.back()).signo, SIGKILL);
  EXPECT_EQ(fake_.count<SignalCommand>(), 1U);
}

TEST_F(SessionRanksTest, LosesRanksWithTheWarden) {
  start_output();
  ranks_.launch(launch_of(2), base::ok_status());
  start(0, 10);
  ranks_.lose_all();
  EXPECT_EQ(sent_.count(Body::kRankStartFailed), 2U);
  EXPECT_EQ(all_over_, 1);
  EXPECT_TRUE(ranks_.pids().empty());
}

TEST_F(SessionRanksTest, WarnsOfMemoryThatMayHaveRunOut) {
  start_output();
  ranks_.launch(launch_of(1), base::ok_status());
  start(0, 10);
  RankExited event = exited(0, 10, SIGKILL);
  event.oom_suspected = true;
  ranks_.on_event(event);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_TRUE(notices_[0].starts_with("rank 0 was killed by a SIGKILL that Muster did not send."));
}

}  // namespace
}  // namespace muster::agent::session_ranks_test
