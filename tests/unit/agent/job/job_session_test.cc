// The session with a warden that the test plays. The real one is in warm_jobs_test.cc and held_jobs_test.cc.
#include "agent/job/job_session.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::job_session_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using Body = v1::AgentMessage;

class JobSessionTest : public ::testing::Test {
 protected:
  JobSessionTest() {
    SessionOptions options;
    options.lease = 1min;
    options.reports_no_output = true;
    options.output = [] { return testing::unreachable_output(true); };
    SessionEvents events;
    events.send = [this](v1::AgentMessage message) { sent_.add(std::move(message)); };
    events.send_unnumbered = [](const v1::AgentMessage&) {};
    events.on_done = [this] { ++done_; };
    events.others = [] { return std::vector<pid_t>(); };
    session_ = std::make_unique<JobSession>(host_, warden_.take(), std::move(options), std::move(events));
    session_->contact(base::monotonic_now());
  }
  ~JobSessionTest() override { warden_.end(); }  // the session's destructor waits for its end

  void launch(int ranks) {
    v1::LauncherMessage message;
    message.mutable_launch()->set_workdir("/");
    message.mutable_launch()->add_command("true");
    for (int i = 0; i < ranks; ++i) message.mutable_launch()->add_ranks()->set_rank(i);
    session_->handle(message);
  }
  void stop(int grace_ms) {
    v1::LauncherMessage message;
    message.mutable_stop_ranks()->set_grace_ms(grace_ms);
    session_->handle(message);
  }
  void leave() {
    v1::LauncherMessage message;
    message.mutable_leave();
    session_->handle(message);
  }
  void add_world() {
    v1::LauncherMessage message;
    message.mutable_add_world()->set_first(7);
    message.mutable_add_world()->mutable_launch()->add_ranks()->set_rank(7);
    session_->handle(message);
  }
  bool sends(Body::BodyCase body, std::size_t n = 1) {
    return run_until(loop_, [&] { return sent_.count(body) >= n; });
  }
  template <typename Command>
  bool orders(std::size_t n = 1) {
    return run_until(loop_, [&] { return warden_.count<Command>() >= n; });
  }
  void close() {
    const std::string directory = session_->session_dir();
    bool is_closed = false;
    session_->close([&] { is_closed = true; });
    EXPECT_TRUE(run_until(loop_, [&] { return is_closed; }));
    EXPECT_NE(::access(directory.c_str(), F_OK), 0) << "the session directory is left";
  }

  base::Loop loop_;
  FakeWarden warden_{loop_};
  SessionHost host_{loop_, {}, {}};
  SentMessages sent_;
  int done_ = 0;
  std::unique_ptr<JobSession> session_;
};

TEST_F(JobSessionTest, ReportsRanksThenHostEmptyThenLeaves) {
  launch(2);
  EXPECT_TRUE(session_->is_launched());
  ASSERT_TRUE(orders<SpawnRequest>(2));
  warden_.send(started(0, 10));
  warden_.send(started(1, 11));
  ASSERT_TRUE(sends(Body::kLaunched));
  warden_.send(exited(0, 10, 0));
  ASSERT_TRUE(sends(Body::kRankExited));
  EXPECT_EQ(warden_.count<FinishCommand>(), 0U) << "a rank still runs";
  warden_.send(exited(1, 11, 0));
  ASSERT_TRUE(orders<FinishCommand>());
  warden_.send(JobEmpty());
  ASSERT_TRUE(sends(Body::kHostEmpty));
  const v1::HostEmpty empty = sent_.last(Body::kHostEmpty).host_empty();
  EXPECT_EQ(empty.failure(), "");
  EXPECT_TRUE(empty.no_output());
  EXPECT_EQ(done_, 0);
  leave();
  leave();
  EXPECT_EQ(done_, 1);
  close();
  EXPECT_EQ(sent_.count(Body::kHostEmpty), 1U);
}

TEST_F(JobSessionTest, LeavesAtOnceWithoutRanks) {
  EXPECT_FALSE(session_->is_launched());
  leave();
  EXPECT_EQ(done_, 1);
  launch(1);
  EXPECT_FALSE(session_->is_launched()) << "too late";
  close();
  EXPECT_EQ(warden_.count<SpawnRequest>(), 0U);
}

TEST_F(JobSessionTest, StopReachesTheWardenAndEndsWithoutFinish) {
  launch(1);
  warden_.send(started(0, 10));
  ASSERT_TRUE(sends(Body::kLaunched));
  stop(5000);
  stop(0);
  ASSERT_TRUE(orders<StopCommand>(2));
  add_world();
  EXPECT_TRUE(sent_.last(Body::kWorldAdded).world_added().starts_no_rank());
  warden_.send(exited(0, 10, SIGTERM));
  warden_.send(JobEmpty());
  ASSERT_TRUE(sends(Body::kHostEmpty));
  stop(0);
  EXPECT_EQ(warden_.count<FinishCommand>(), 0U);
  leave();
  close();
  EXPECT_EQ(warden_.count<StopCommand>(), 2U) << "no stop after JobEmpty";
}

TEST_F(JobSessionTest, LostLauncherEndsRanksAndTheSession) {
  launch(1);
  warden_.send(started(0, 10));
  ASSERT_TRUE(sends(Body::kLaunched));
  session_->check(base::monotonic_now());
  EXPECT_EQ(warden_.count<StopCommand>(), 0U);
  session_->check(base::monotonic_now() + 2min);  // longer than the lease
  session_->launcher_lost("again");
  ASSERT_TRUE(orders<StopCommand>());
  EXPECT_EQ(done_, 0);
  warden_.send(exited(0, 10, SIGKILL));
  warden_.send(JobEmpty());
  ASSERT_TRUE(run_until(loop_, [&] { return done_ > 0; }));
  EXPECT_EQ(sent_.last(Body::kHostEmpty).host_empty().failure(),
            "the launcher has sent nothing for the length of the lease; the ranks were ended");
  EXPECT_EQ(done_, 1);
  close();
  EXPECT_EQ(warden_.count<StopCommand>(), 1U);
}

TEST_F(JobSessionTest, SuspendedRanksContinueBeforeTheyStop) {
  launch(1);
  warden_.send(started(0, 10));
  ASSERT_TRUE(sends(Body::kLaunched));
  v1::LauncherMessage message;
  message.mutable_suspend()->set_on(true);
  session_->handle(message);
  session_->check(base::monotonic_now() + 2min);  // the lease does not run
  EXPECT_TRUE(sent_.last(Body::kSuspended).suspended().on());
  stop(0);
  ASSERT_TRUE(orders<StopCommand>());
  EXPECT_EQ(warden_.count<PauseCommand>(), 2U);
  EXPECT_FALSE(sent_.last(Body::kSuspended).suspended().on());
  warden_.send(exited(0, 10, SIGKILL));
  warden_.send(JobEmpty());
  ASSERT_TRUE(sends(Body::kHostEmpty));
}

TEST_F(JobSessionTest, FailsTheJobIfTheWardenEnds) {
  launch(1);
  warden_.send(started(0, 10));
  ASSERT_TRUE(sends(Body::kLaunched));
  warden_.end();
  ASSERT_TRUE(sends(Body::kHostEmpty));
  EXPECT_EQ(sent_.last(Body::kHostEmpty).host_empty().failure(),
            "the warden, the parent of the ranks, was killed; the ranks were ended");
  EXPECT_EQ(sent_.count(Body::kRankExited), 1U);
  leave();
  EXPECT_EQ(done_, 1);
  close();
}

TEST_F(JobSessionTest, LaunchAfterTheWardensEndStartsNoRank) {
  warden_.end();
  ASSERT_TRUE(sends(Body::kHostEmpty));
  EXPECT_FALSE(session_->is_launched());
  launch(2);
  EXPECT_TRUE(session_->is_launched());
  EXPECT_EQ(sent_.count(Body::kRankStartFailed), 2U);
  EXPECT_EQ(sent_.count(Body::kLaunched), 1U);
  leave();
  close();
  EXPECT_EQ(sent_.count(Body::kHostEmpty), 1U);
}

TEST_F(JobSessionTest, RefusesSpawnedRanksBeforeLaunch) {
  add_world();
  const v1::WorldAdded refusal = sent_.last(Body::kWorldAdded).world_added();
  EXPECT_EQ(refusal.first(), 7);
  EXPECT_EQ(refusal.error(), "the job's ranks here have ended");
}

}  // namespace
}  // namespace muster::agent::job_session_test
