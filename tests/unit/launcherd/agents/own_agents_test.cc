// Agents of one job, in the order in which a busy machine may report them. The agent is a fake.
#include "launcherd/agents/own_agents.h"

#include <sys/socket.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "tests/unit/launcherd/agents/played_agent.h"
#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::own_agents_test {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

// Starts nothing. Reports that the agent runs when the test says so.
class HeldBootstrap final : public Bootstrap {
 public:
  void start(const BootstrapTarget&, JoinSource source, std::function<void(base::Result<StartedAgent>)> done) override {
    join = std::move(source);
    done_ = std::move(done);
  }
  void run(const BootstrapTarget&, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    ADD_FAILURE() << "nothing is swept";
    done(CommandResult());
  }
  void cancel() override {}

  void report() { done_(testing_support::started_agent(stdio)); }

  JoinSource join;
  base::UniqueFd stdio;  // the agent's end

 private:
  std::function<void(base::Result<StartedAgent>)> done_;
};

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

class OwnAgentsTest : public ::testing::Test, protected AgentListener {
 protected:
  void attach_agent() {
    const auto frame = bootstrap_.join.get();
    ASSERT_TRUE(frame.ok()) << frame.status();
    v1::AgentJoin join;
    ASSERT_TRUE(join.ParseFromString(frame->substr(sizeof(std::uint32_t))));
    v1::Hello hello;
    hello.set_hostname("n1");
    agent_ = testing_support::play_agent(loop_, join, std::move(hello));
  }

  void agent_started(int) override { said_.emplace_back("started"); }
  void agent_up(int, AgentUp up) override {
    said_.push_back("up " + up.hello.hostname());
    loop_.stop();
  }
  void agent_failed(int, const std::string& message) override { ADD_FAILURE() << message; }
  void agent_message(int, const v1::AgentMessage&) override {}
  void agent_stream(int, bool is_there) override {
    if (is_there) on_stream_();
  }
  void agent_gone(int, const base::Status& status) override { ADD_FAILURE() << status; }
  void agent_unreadable(int) override { ADD_FAILURE() << "its messages can be read"; }
  void output_complete(int) override {}
  void output_cut(int) override {}
  void output_failed(const base::Status& status) override { ADD_FAILURE() << status; }
  void note(const std::string& line) override { on_note_(line); }

  base::Loop loop_;
  HeldBootstrap bootstrap_;
  testing_support::NoOutput sink_;
  std::function<void()> on_stream_ = [] {};
  std::function<void(const std::string&)> on_note_ = [](const std::string&) {};
  std::vector<std::string> said_;
  std::shared_ptr<OwnAgents> agents_ = std::make_shared<OwnAgents>(
      loop_, OwnAgentsOptions{.job_id = base::JobId::random().str(), .session_root = ""}, &bootstrap_);
  std::unique_ptr<agent::ControlClient> agent_;
};

// The thread that started the agent may get no processor for longer than the agent needs for its Hello.
TEST_F(OwnAgentsTest, ReportsStartBeforeHelloWhenHelloComesFirst) {
  on_stream_ = [this] { bootstrap_.report(); };
  ASSERT_TRUE(agents_->start({{.target = {.name = "n1"}}}, &sink_, this).ok());
  attach_agent();
  const base::Timer deadline = loop_.after(30s, [this] {
    ADD_FAILURE() << "the test's deadline passed";
    loop_.stop();
  });
  loop_.run();
  EXPECT_THAT(said_, ElementsAre("started", "up n1"));
  agent_.reset();
  agents_.reset();
}

TEST_F(OwnAgentsTest, AnAgentIsAddedToARunningJob) {
  on_stream_ = [this] { bootstrap_.report(); };
  ASSERT_TRUE(agents_->start({}, &sink_, this).ok());
  ASSERT_TRUE(agents_->add({.target = {.name = "n1"}}).ok());
  EXPECT_FALSE(bootstrap_.join.valid()) << "the runner says when it starts";
  agents_->start_added(0);
  attach_agent();
  const base::Timer deadline = loop_.after(30s, [this] {
    ADD_FAILURE() << "the test's deadline passed";
    loop_.stop();
  });
  loop_.run();
  EXPECT_THAT(said_, ElementsAre("started", "up n1"));
  agents_->drop(0);
  agent_.reset();
  agents_.reset();
}

// Many agents may be dropped while the job lives.
TEST_F(OwnAgentsTest, DropClosesTheConnectionsThatSshCarried) {
  constexpr int kAgents = 10;
  const base::Timer deadline = loop_.after(30s, [this] {
    ADD_FAILURE() << "the test's deadline passed";
    loop_.stop();
  });
  on_note_ = [this](const std::string& line) {
    if (line.find("over ssh") != std::string::npos) loop_.stop();
  };
  ASSERT_TRUE(agents_->start({}, &sink_, this).ok());
  std::ptrdiff_t before = 0;
  for (int agent = 0; agent < kAgents; ++agent) {
    ASSERT_TRUE(agents_->add({.target = {.name = "n1"}}).ok());
    agents_->start_added(agent);
    bootstrap_.report();
    constexpr std::string_view kLine = "MUSTER-LINK ssh as a test\n";
    ASSERT_EQ(::send(bootstrap_.stdio.get(), kLine.data(), kLine.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(kLine.size()));
    loop_.run();
    agents_->drop(agent);
    bootstrap_.stdio.reset();
    if (agent == 0) before = open_files();  // gRPC has opened its own
  }
  const base::Timer check = loop_.every(5ms, [&] {
    if (open_files() <= before) loop_.stop();
  });
  loop_.run();
  EXPECT_LE(open_files(), before);
}

}  // namespace
}  // namespace muster::launcherd::own_agents_test
