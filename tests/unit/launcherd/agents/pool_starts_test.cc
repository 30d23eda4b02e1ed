// How the pool starts agents, and how long it waits for one that has not reported or was cut. The bootstrap and the
// agents are fakes.
#include <unistd.h>

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "launcherd/agents/host_pool.h"
#include "tests/unit/launcherd/agents/played_agent.h"
#include "tests/unit/launcherd/run/no_output.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::pool_starts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// Starts nothing. The test holds the agent's end of the log-in.
class FakeBootstrap final : public Bootstrap {
 public:
  void start(const BootstrapTarget&, JoinSource source, std::function<void(base::Result<StartedAgent>)> done) override {
    ++starts;
    if (fails) return done(base::error(base::Code::kUnavailable, "n1: no log-in"));
    ASSERT_TRUE(source.get().ok());
    ASSERT_TRUE(join.ParseFromString(source.get()->substr(sizeof(std::uint32_t))));
    done(testing_support::started_agent(stdio));
    on_start();
  }
  void run(const BootstrapTarget&, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    if (!has_died) ADD_FAILURE() << "the agent holds no job, so nothing must be searched";
    done(CommandResult());
  }
  void cancel() override {}

  int starts = 0;
  bool fails = false;
  bool has_died = false;  // a search finds no process of the agent
  v1::AgentJoin join;
  base::UniqueFd stdio;  // the agent's end
  std::function<void()> on_start;
};

class PoolStartsTest : public ::testing::Test, private AgentListener {
 protected:
  void SetUp() override {
    start_pool();
    deadline_ = loop_.after(50s, [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
    job_ = pool_->agents_for({.job_id = base::JobId::random().str(), .secret = base::random_hex(16)});
  }
  void start_pool() {
    HostPoolOptions options;
    options.state_file = directory_ / "agents";
    options.on_note = [this](const std::string& line) {
      if (line.find(awaited_note_) != std::string::npos) loop_.stop();
    };
    auto started = HostPool::start(loop_, clock_, options, &bootstrap_);
    ASSERT_TRUE(started.ok()) << started.status();
    pool_ = std::move(*started);
  }
  void TearDown() override {
    if (!expects_unreadable_) {
      EXPECT_THAT(unreadable_, IsEmpty());
    }
    agent_.reset();
    job_.reset();
    pool_.reset();
  }

  void start_job() {
    const base::Status started = job_->start({{.target = {.name = "n1"}}}, &sink_, this);
    ASSERT_TRUE(started.ok()) << started;
  }
  void run_until_noted(const std::string& words) {
    awaited_note_ = words;
    loop_.run();
  }
  // Does what an agent does that has dialled: reports it, and leaves its log-in.
  void report_dialled() {
    constexpr std::string_view kLine = "MUSTER-LINK dial\n";
    ASSERT_EQ(::write(bootstrap_.stdio.get(), kLine.data(), kLine.size()), static_cast<ssize_t>(kLine.size()));
    bootstrap_.stdio.reset();
  }
  void attach_agent() { agent_ = testing_support::play_agent(loop_, bootstrap_.join); }

  void agent_started(int) override {}
  void agent_up(int, AgentUp) override {}
  void agent_failed(int, const std::string& message) override {
    failures_.push_back(message);
    loop_.stop();
  }
  void agent_message(int, const v1::AgentMessage& message) override {
    if (message.has_host_empty()) loop_.stop();
  }
  void agent_stream(int, bool) override {}
  void agent_gone(int, const base::Status& status) override {
    if (!bootstrap_.has_died && !expects_gone_) ADD_FAILURE() << status;
    gone_.push_back(status.message());
    if (expects_gone_) loop_.stop();
  }
  void agent_unreadable(int agent) override { unreadable_.push_back(agent); }
  void output_complete(int) override {}
  void output_cut(int) override { ADD_FAILURE() << "no output was expected"; }
  void output_failed(const base::Status& status) override { ADD_FAILURE() << status; }
  void note(const std::string&) override {}

  testing_support::TempDir directory_;
  base::SystemClock clock_;
  base::Loop loop_;
  base::Timer deadline_;
  FakeBootstrap bootstrap_;
  testing_support::NoOutput sink_;
  std::string awaited_note_ = "no such note";
  std::vector<std::string> failures_;
  std::vector<int> unreadable_;
  std::vector<std::string> gone_;
  bool expects_unreadable_ = false;
  bool expects_gone_ = false;
  std::unique_ptr<HostPool> pool_;
  std::shared_ptr<JobAgents> job_;
  std::unique_ptr<agent::ControlClient> agent_;
};

// A handshake can take many seconds when thousands come at once.
TEST_F(PoolStartsTest, WaitsForTheHandshakeOfAnAgentThatHasDialled) {
  base::Timer later;
  bootstrap_.on_start = [&] {
    report_dialled();
    later = loop_.after(3s, [this] { attach_agent(); });
  };
  start_job();
  run_until_noted("agent up");
  EXPECT_THAT(failures_, IsEmpty());
  EXPECT_EQ(bootstrap_.starts, 1);
}

TEST_F(PoolStartsTest, FailsTheStartWhenTheAgentEndsBeforeItDials) {
  bootstrap_.on_start = [this] { bootstrap_.stdio.reset(); };
  start_job();
  run_until_noted("no such note");
  EXPECT_THAT(failures_, ElementsAre(HasSubstr("the agent started and ended before it reported")));
}

// The pool retries a host that is down as long as launcherd runs.
TEST_F(PoolStartsTest, ForgetsAgentsThatDidNotStart) {
  bootstrap_.fails = true;
  for (int i = 1; i <= 20; ++i) {
    start_job();
    run_until_noted("no such note");
    EXPECT_EQ(bootstrap_.starts, i);
    EXPECT_EQ(pool_->agents(), 0U);
    job_ = pool_->agents_for({.job_id = base::JobId::random().str(), .secret = base::random_hex(16)});
  }
  EXPECT_EQ(failures_.size(), 20U);
}

// The server refuses a message of this length, however often the agent sends it.
TEST_F(PoolStartsTest, DropsAnAgentWhoseMessageIsUnreadable) {
  expects_unreadable_ = true;
  bool has_left = false;
  bootstrap_.on_start = [&] {
    report_dialled();
    attach_agent();
    agent_->on_message = [&](const v1::LauncherMessage& message) { has_left = has_left || message.has_leave(); };
    v1::AgentMessage message;
    message.mutable_notice()->set_text(std::string(std::size_t{5} << 20, 'x'));
    agent_->send(std::move(message));
  };
  start_job();
  run_until_noted("so launcherd dropped the agent");
  // The job gets one report. It does not move to another agent, although the agent had not opened it.
  EXPECT_THAT(unreadable_, ElementsAre(0));
  EXPECT_THAT(failures_, IsEmpty());
  EXPECT_EQ(bootstrap_.starts, 1);
  EXPECT_EQ(pool_->agents(), 0U);
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_NONE);
  const base::Timer poll = loop_.every(5ms, [&] {
    if (has_left) loop_.stop();
  });
  loop_.run();
  EXPECT_TRUE(has_left);  // so the agent ends what it runs
  // The next job gets another agent.
  bootstrap_.on_start = [this] {
    report_dialled();
    attach_agent();
  };
  job_ = pool_->agents_for({.job_id = base::JobId::random().str(), .secret = base::random_hex(16)});
  start_job();
  run_until_noted("agent up");
  EXPECT_EQ(bootstrap_.starts, 2);
  EXPECT_THAT(unreadable_, ElementsAre(0));
}

// A view needs the facts about a host without a job.
TEST_F(PoolStartsTest, StartsOneAgentForSeveralRequestsWithoutAJob) {
  bootstrap_.on_start = [this] {
    report_dialled();
    attach_agent();
  };
  pool_->ask({.target = {.name = "n1"}});
  pool_->ask({.target = {.name = "n1"}});
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_STARTING);
  run_until_noted("agent up");
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_UP);
  EXPECT_EQ(pool_->view({.name = "n1"}).hello.job_id(), bootstrap_.join.job_id());
  pool_->ask({.target = {.name = "n1"}});
  EXPECT_EQ(bootstrap_.starts, 1);
}

// The pool first waits for the agent of the last launcherd.
TEST_F(PoolStartsTest, StartsARequestedAgentWhenTheLastOneDoesNotReturn) {
  bootstrap_.on_start = [this] {
    report_dialled();
    attach_agent();
  };
  pool_->ask({.target = {.name = "n1"}});
  run_until_noted("agent up");
  agent_.reset();
  job_.reset();
  pool_.reset();
  start_pool();
  pool_->ask({.target = {.name = "n1"}});
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_SUSPECT);
  EXPECT_EQ(bootstrap_.starts, 1);
  run_until_noted("agent up");
  EXPECT_EQ(bootstrap_.starts, 2);
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_UP);
}

// The agent dials again by itself. Without this wait, what it is just opening would block the next agent.
TEST_F(PoolStartsTest, WaitsForACutAgentWithoutAJob) {
  bootstrap_.on_start = [this] {
    report_dialled();
    attach_agent();
  };
  start_job();
  run_until_noted("agent up");
  const auto cut = std::chrono::steady_clock::now();
  agent_.reset();
  run_until_noted("the agent is gone: its connection was closed");
  EXPECT_GE(std::chrono::steady_clock::now() - cut, 3s);
  EXPECT_EQ(bootstrap_.starts, 1);
}

// launcherd does not wait for such an agent when it ends.
TEST_F(PoolStartsTest, EndsAtOnceWhenItDropsTheLastDismissedAgent) {
  bootstrap_.on_start = [this] {
    report_dialled();
    attach_agent();
  };
  pool_->ask({.target = {.name = "n1"}});
  run_until_noted("agent up");
  bool got_leave = false;
  agent_->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_leave() || std::exchange(got_leave, true)) return;
    v1::AgentMessage long_one;
    long_one.mutable_notice()->set_text(std::string(std::size_t{5} << 20, 'x'));
    agent_->send(std::move(long_one));
  };
  const auto begin = std::chrono::steady_clock::now();
  int answers = 0;
  pool_->let_go([&] {
    ++answers;
    loop_.stop();
  });
  awaited_note_ = "no such note";
  loop_.run();
  EXPECT_TRUE(got_leave);
  EXPECT_EQ(answers, 1);
  EXPECT_EQ(pool_->agents(), 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s) << "launcherd waited for the agent";
}

// For example an agent that was killed after its ranks had ended: the job's runner knows what is missing.
TEST_F(PoolStartsTest, ReportsAnAgentAsGoneThatDiesAfterItsJobHasEnded) {
  std::string job;
  std::vector<std::string> left;
  bootstrap_.on_start = [&] {
    report_dialled();
    attach_agent();
    agent_->on_message = [&](const v1::LauncherMessage& message) {
      if (message.has_leave()) left.push_back(message.job_id());
      if (!message.has_open_job() || !job.empty()) return;
      job = message.job_id();
      v1::AgentMessage answer;
      answer.set_job_id(job);
      answer.mutable_job_opened();
      agent_->send(answer);
      answer.mutable_host_empty();
      agent_->send(answer);
    };
  };
  start_job();
  run_until_noted("no such note");  // until the job is over there
  bootstrap_.has_died = true;
  agent_.reset();
  run_until_noted("launcherd searched the host and found no process of the agent");
  EXPECT_THAT(gone_, ElementsAre(HasSubstr("launcherd searched the host and found no process of the agent")));
  EXPECT_EQ(pool_->view({.name = "n1"}).jobs, 0);
  EXPECT_EQ(bootstrap_.starts, 1) << "no job needs another agent";
  // The next agent gets no order about that job.
  job_ = pool_->agents_for({.job_id = base::JobId::random().str(), .secret = base::random_hex(16)});
  start_job();
  run_until_noted("agent up");
  EXPECT_EQ(bootstrap_.starts, 2);
  EXPECT_THAT(left, IsEmpty());
}

// The job's lease passed on the agent first. The agent is back, but without the job.
TEST_F(PoolStartsTest, ReportsAJobAsGoneThatItsAgentHasClosed) {
  expects_gone_ = true;
  bool was_opened = false;
  bootstrap_.on_start = [&] {
    report_dialled();
    attach_agent();
    agent_->on_message = [&](const v1::LauncherMessage& message) {
      if (!message.has_open_job() || std::exchange(was_opened, true)) return;
      v1::AgentMessage answer;
      answer.set_job_id(message.job_id());
      answer.mutable_job_opened();
      agent_->send(answer);
      answer.mutable_job_closed();
      agent_->send(answer);
    };
  };
  start_job();
  run_until_noted("no such note");
  EXPECT_THAT(gone_, ElementsAre(HasSubstr("the agent ended the job by itself")));
  EXPECT_EQ(pool_->view({.name = "n1"}).jobs, 0);
  EXPECT_EQ(pool_->state({.name = "n1"}), v1::AGENT_STATE_UP);
}

}  // namespace
}  // namespace muster::launcherd::pool_starts_test
