#include "agent/job/session_ranks.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"
#include "tests/unit/support/temp_dir.h"

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
  SessionStores stores_{loop_,
                        {},
                        {.ask_launcher = {},
                         .on_problem = {},
                         .on_notice = {},
                         .live = {.on_check_in = [this](int local_rank) { ranks_.checked_in(local_rank); },
                                  .on_first_put = [this](int rank) { ranks_.put_first(rank); }}}};
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

TEST_F(SessionRanksTest, ReportsProgressBeforeTheEndOfTheRankThatMadeIt) {
  const testing_support::TempDir dir;
  start_output();
  v1::Launch launch = launch_of(2);
  launch.set_workdir(dir.path());
  launch.set_progress_file("last");
  ranks_.launch(launch, base::ok_status());
  start(0, 10);
  start(1, 11);
  dir.write("last", "epoch 1");
  end(0, 10, 3 << 8);
  EXPECT_EQ(sent_.count(Body::kProgress), 1U);
  dir.write("last", "epoch 10");
  end(1, 11, 3 << 8);
  EXPECT_EQ(sent_.count(Body::kProgress), 1U) << "once is enough";
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

// A job whose ranks change: numbers stay, ranks do not.
TEST_F(SessionRanksTest, AProcessGetsItsNumbersOfTheNextGeneration) {
  start_output();
  v1::Prepare prepare;
  prepare.set_master_address("127.0.0.1");
  prepare.set_serve_horovod(true);
  ASSERT_EQ(stores_.prepare(prepare).error(), "");
  v1::Launch launch;
  launch.set_workdir("/");
  launch.add_command("true");
  for (const int number : {4, 5}) {
    launch.add_ranks()->set_rank(number);
    v1::LiveMember& member = *launch.add_live_members();
    member.set_number(number);
    member.set_rank(number - 2);
    member.set_local_rank(number - 4);
  }
  ranks_.launch(launch, base::ok_status());
  start(4, 10);
  start(5, 11);
  ranks_.checked_in(7);  // unknown
  EXPECT_EQ(sent_.count(Body::kCheckIn), 0U);
  ranks_.first_collective(2);
  EXPECT_EQ(sent_.last(Body::kFirstCollective).first_collective().generation(), 2);
  std::string answer;
  stores_.live()->get("rank_and_size", "n1:1", [&](const auto& value) { answer = **value; });
  EXPECT_EQ(sent_.last(Body::kCheckIn).check_in().number(), 5);
  end(4, 10, 1 << 8);

  const auto notice = [&](int number, std::int64_t timestamp) {
    v1::NotifyWorker order;
    order.set_number(number);
    order.set_timestamp(timestamp);
    order.set_result(3);
    const auto before = sent_.count(Body::kWorkerNotified);
    ranks_.notify(order);
    for (int i = 0; i < 1000 && sent_.count(Body::kWorkerNotified) == before; ++i) {
      loop_.post([this] { loop_.stop(); });
      loop_.run();
    }
    const v1::WorkerNotified result = sent_.last(Body::kWorkerNotified).worker_notified();
    EXPECT_EQ(result.number(), number);
    EXPECT_EQ(result.timestamp(), timestamp);
    return result.error();
  };
  EXPECT_EQ(notice(5, 7), "the process has named no notification service");
  EXPECT_EQ(notice(4, 8), "the process has named no notification service") << "it has ended";
  EXPECT_EQ(notice(99, 9), "the process has named no notification service") << "it is unknown";
  stores_.live()->put("worker_addresses", "n1:1", rendezvous::make_horovod_value("no pickle"),
                      [](const base::Status& put) { EXPECT_TRUE(put.ok()); });
  EXPECT_NE(notice(5, 10), "");
  EXPECT_NE(notice(5, 10), "the process has named no notification service");

  v1::PrepareGeneration order;
  order.set_generation(1);
  ASSERT_EQ(stores_.prepare_generation(order).error(), "");
  v1::BeginGeneration begin;
  begin.set_generation(1);
  v1::LiveMember& member = *begin.add_members();
  member.set_number(5);
  member.set_size(1);
  member.set_local_size(1);
  member.set_cross_size(1);
  ranks_.begin_generation(begin);
  EXPECT_EQ(answer, "0,1,0,1,0,1");
  EXPECT_TRUE(notices_.empty());

  RankExited killed = exited(5, 11, SIGKILL);
  killed.oom_suspected = true;
  ranks_.on_event(killed);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_TRUE(notices_[0].starts_with("rank 0 was killed")) << "users see the rank, not the number: " << notices_[0];
}

TEST_F(SessionRanksTest, EndsSomeRanksBySigtermFirst) {
  start_output();
  ranks_.launch(launch_of(2), base::ok_status());
  start(0, 10);
  start(1, 11);
  v1::EndRanks order;
  order.add_ranks(1);
  order.add_ranks(7);  // it does not run
  order.set_grace_ms(1);
  ranks_.end_some(order);
  ASSERT_TRUE(orders<SignalCommand>(2));
  std::vector<int> signals;
  for (const auto& command : fake_.commands) {
    const auto* const signal = std::get_if<SignalCommand>(&command);
    if (signal == nullptr) continue;
    EXPECT_EQ(signal->rank, 1);
    signals.push_back(signal->signo);
  }
  EXPECT_EQ(signals, (std::vector<int>{SIGTERM, SIGKILL}));
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
