// Agents that serve one generation of a job after the other. The agents are played.
#include "launcherd/agents/kept_agents.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"
#include "tests/unit/launcherd/agents/played_agent.h"
#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::kept_agents_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using namespace std::chrono_literals;

// An agent that has been started on a host.
struct Played {
  std::string host;
  v1::AgentJoin join;
  base::UniqueFd stdio;
  std::unique_ptr<agent::ControlClient> client;
  std::vector<v1::OpenJob> opened;
  bool closes = true;  // answers Leave at once
  bool closes_twice = false;
  bool opens = true;    // answers OpenJob at once
  std::string refusal;  // the error of its JobOpened
  int leaves = 0;       // number of Leaves that it got
  int pings = 0;        // number of Pings that are for no generation

  void send(v1::AgentMessage message) {
    message.set_job_id(join.job_id());
    client->send(std::move(message));
  }
  void close() {
    v1::AgentMessage closed;
    closed.mutable_job_closed();
    send(std::move(closed));
  }
  void open() {
    v1::AgentMessage answer;
    answer.mutable_job_opened()->set_containment("played");
    answer.mutable_job_opened()->set_error(refusal);
    send(std::move(answer));
  }
  void end() {
    client.reset();
    stdio.reset();
  }
  void exit_rank(int rank) {
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(rank);
    send(std::move(exited));
  }
  bool is_let_go() const {
    pollfd ends{.fd = stdio.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ends, 1, 0) > 0 && (ends.revents & POLLHUP) != 0;
  }
};

class PlayingBootstrap final : public Bootstrap {
 public:
  explicit PlayingBootstrap(base::Loop& loop) : loop_(loop) {}

  void start(const BootstrapTarget& target, JoinSource source,
             std::function<void(base::Result<StartedAgent>)> done) override {
    loop_.post([this, name = target.name, source = std::move(source), done = std::move(done)] {
      if (broken == name) return done(base::unavailable("{}: no route", name));
      if (cancels > 0) return done(base::cancelled("{}: cancelled", name));
      if (!source.get().ok()) return done(source.get().status());
      Played& agent = *agents.emplace_back(std::make_unique<Played>());
      agent.host = name;
      ASSERT_TRUE(agent.join.ParseFromString(source.get()->substr(sizeof(std::uint32_t))));
      StartedAgent started = testing_support::started_agent(agent.stdio);
      const std::string line = link_line;
      ASSERT_EQ(::send(agent.stdio.get(), line.data(), line.size(), MSG_NOSIGNAL), static_cast<ssize_t>(line.size()));
      agent.opens = opens;
      if (refuses) agent.refusal = "too few descriptors";
      if (connects) connect(agent);
      done(std::move(started));
    });
  }
  // Makes the agent send its Hello.
  void connect(Played& agent) {
    v1::Hello hello;
    hello.set_hostname(agent.host);
    agent.client = testing_support::play_agent(loop_, agent.join, std::move(hello));
    agent.client->on_message = [&agent](const v1::LauncherMessage& message) { answer(agent, message); };
  }
  void expect(const std::vector<BootstrapTarget>& targets) override {
    starts.emplace_back();
    for (const BootstrapTarget& target : targets) starts.back().push_back(target.name);
  }
  void run(const BootstrapTarget&, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    done(CommandResult());
  }
  void cancel() override { ++cancels; }

  std::vector<std::unique_ptr<Played>> agents;
  std::vector<std::vector<std::string>> starts;  // the hosts that were announced together
  std::string broken;                            // this host's agent does not start
  std::string link_line = "MUSTER-LINK dial\n";
  bool connects = true;  // new agents connect at once
  bool opens = true;     // new agents answer OpenJob at once
  bool refuses = false;  // new agents refuse their generations
  int cancels = 0;

 private:
  static void answer(Played& agent, const v1::LauncherMessage& message) {
    if (message.has_open_job()) {
      EXPECT_EQ(message.job_id(), agent.join.job_id());
      agent.opened.push_back(message.open_job());
      if (agent.opens) agent.open();
    } else if (message.has_ping() && message.job_id().empty()) {
      ++agent.pings;
    } else if (message.has_leave()) {
      ++agent.leaves;
      if (agent.closes) agent.close();
      if (agent.closes_twice) agent.close();
    }
  }

  base::Loop& loop_;
};

// Lets this process open no further descriptors.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const base::UniqueFd next(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    const rlimit wanted{static_cast<rlim_t>(next.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &wanted), 0);
  }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;
  ~NoMoreFiles() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

class KeptAgentsTest : public ::testing::Test, protected AgentListener {
 protected:
  // Begins a generation on these hosts.
  void begin(const std::vector<std::string>& names) {
    said_.clear();
    started_.clear();
    generation_.reset();
    generation_ = kept_->of_attempt(attempt_++);
    std::vector<AgentHost> hosts;
    for (const std::string& name : names) hosts.push_back({.target = {.name = name}});
    ASSERT_TRUE(generation_->start(std::move(hosts), &sink_, this).ok());
  }
  void begin_and_come_up(const std::vector<std::string>& names) {
    begin(names);
    turn_until([&] { return said_.size() >= names.size(); });
  }
  void turn_until(const std::function<bool()>& is_done) {
    const base::Timer deadline = loop_.after(30s, [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
    const base::Timer check = loop_.every(5ms, [&] {
      if (is_done()) loop_.stop();
    });
    loop_.run();
  }
  void turn_for(base::Duration time) {
    const base::MonotonicTime begun = base::monotonic_now();
    turn_until([&] { return base::monotonic_now() - begun > time; });
  }
  Played& played(std::size_t number) { return *bootstrap_.agents.at(number); }

  void agent_started(int agent) override { started_.push_back(agent); }
  void agent_up(int agent, AgentUp up) override {
    EXPECT_THAT(started_, ::testing::Contains(agent));
    EXPECT_EQ(up.hello.containment(), "played");
    said_.push_back(fmt::format("up {} {}", agent, up.hello.hostname()));
  }
  void agent_failed(int agent, const std::string& message) override {
    said_.push_back(fmt::format("failed {} {}", agent, message));
  }
  void agent_message(int agent, const v1::AgentMessage& message) override {
    if (message.has_rank_exited()) said_.push_back(fmt::format("exit {} {}", agent, message.rank_exited().rank()));
  }
  void agent_stream(int, bool) override {}
  void agent_gone(int agent, const base::Status&) override {
    said_.push_back(fmt::format("gone {}", agent));
    if (drops_) generation_->drop(agent);
  }
  void agent_unreadable(int) override { ADD_FAILURE() << "its messages can be read"; }
  void output_complete(int) override {}
  void output_cut(int) override {}
  void output_failed(const base::Status& status) override { ADD_FAILURE() << status; }
  void note(const std::string& line) override { on_note_(line); }

  base::Loop loop_;
  PlayingBootstrap bootstrap_{loop_};
  testing_support::NoOutput sink_;
  int bootstraps_ = 0;
  bool drops_ = true;  // drops an agent that has ended
  std::shared_ptr<KeptAgents> kept_ = std::make_shared<KeptAgents>(
      loop_, OwnAgentsOptions{.job_id = base::JobId::random().str(), .lease = 5s, .session_root = ""}, [this](int) {
        ++bootstraps_;
        return &bootstrap_;
      });
  int attempt_ = 0;
  std::vector<std::string> said_;
  std::vector<int> started_;
  std::function<void(const std::string&)> on_note_ = [](const std::string&) {};
  std::shared_ptr<JobAgents> generation_;
};

TEST_F(KeptAgentsTest, NextGenerationUsesTheAgentsThatAreThere) {
  begin_and_come_up({"n1", "n2"});
  EXPECT_THAT(said_, UnorderedElementsAre("up 0 n1", "up 1 n2"));
  generation_->leave(0);
  generation_->leave(1);
  begin_and_come_up({"n2", "n1"});
  EXPECT_THAT(said_, UnorderedElementsAre("up 0 n2", "up 1 n1"));
  ASSERT_EQ(bootstrap_.agents.size(), 2u);
  EXPECT_EQ(bootstraps_, 1);
  for (const auto& agent : bootstrap_.agents) {
    EXPECT_TRUE(agent->join.warm());
    ASSERT_EQ(agent->opened.size(), 2u);
    EXPECT_EQ(agent->opened[0].attempt(), 0);
    EXPECT_EQ(agent->opened[1].attempt(), 1);
    EXPECT_NE(agent->opened[0].output_token(), agent->opened[1].output_token());
    EXPECT_FALSE(agent->is_let_go());
  }
}

// The agent ends by its lease if it gets nothing.
TEST_F(KeptAgentsTest, PingsAgentsThatNoGenerationPings) {
  begin_and_come_up({"n1", "n2"});
  const int at_start = played(0).pings;
  turn_for(1200ms);
  EXPECT_EQ(played(0).pings, at_start) << "the generation pings the agents";
  played(1).closes = false;
  generation_->leave(0);
  turn_until([&] { return played(0).pings > at_start + 1; });
  generation_.reset();
  turn_until([&] { return played(1).pings > at_start + 2; });
  begin({"n2"});
  const int before = played(1).pings;
  turn_until([&] { return played(1).pings > before + 1; });
  EXPECT_EQ(played(1).opened.size(), 1U) << "it still closes the last generation";
  EXPECT_TRUE(played(0).is_let_go());
}

TEST_F(KeptAgentsTest, ReplacesALateAgentBeforeTheStartTimeoutEnds) {
  OwnAgentsOptions options{.job_id = base::JobId::random().str(), .session_root = ""};
  options.start_timeout = 2s;
  kept_ = std::make_shared<KeptAgents>(loop_, std::move(options), [this](int) { return &bootstrap_; });
  begin_and_come_up({"n1"});
  played(0).closes = false;
  begin({"n1"});
  const base::MonotonicTime begun = base::monotonic_now();
  turn_until([&] { return !said_.empty(); });
  EXPECT_LT(base::monotonic_now() - begun, KeptAgents::kCloseTime);
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstrap_.agents.size(), 2U);
}

TEST_F(KeptAgentsTest, NextGenerationOpensOnlyOnceTheLastOneIsClosed) {
  begin_and_come_up({"n1"});
  played(0).closes = false;
  begin({"n1"});
  turn_until([&] { return played(0).leaves > 0; });
  played(0).exit_rank(7);
  turn_for(200ms);
  EXPECT_EQ(played(0).opened.size(), 1u);
  EXPECT_THAT(said_, IsEmpty()) << "the rank is one of the last generation";
  played(0).close();
  turn_until([&] { return !said_.empty(); });
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  played(0).exit_rank(3);
  turn_until([&] { return said_.size() == 2; });
  EXPECT_EQ(said_.back(), "exit 0 3");
}

TEST_F(KeptAgentsTest, AnAgentThatDoesNotCloseIsReplaced) {
  begin_and_come_up({"n1"});
  played(0).closes = false;
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  ASSERT_EQ(bootstrap_.agents.size(), 2u);
  EXPECT_TRUE(played(0).is_let_go());
}

TEST_F(KeptAgentsTest, AnAgentThatEndsBetweenGenerationsIsReplaced) {
  begin_and_come_up({"n1"});
  generation_->leave(0);
  turn_until([&] { return played(0).leaves > 0; });
  played(0).end();
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstrap_.agents.size(), 2u);
}

TEST_F(KeptAgentsTest, AnAgentThatEndsInAGenerationIsReportedAndNotKept) {
  begin_and_come_up({"n1", "n2"});
  played(0).end();
  turn_until([&] { return said_.size() == 3; });
  const int lost = said_[0] == "up 0 n1" && played(0).host == "n1" ? 0 : static_cast<int>(played(0).host == "n2");
  EXPECT_EQ(said_.back(), fmt::format("gone {}", lost));
  begin_and_come_up({"n1", "n2"});
  EXPECT_EQ(bootstrap_.agents.size(), 3u);
}

TEST_F(KeptAgentsTest, AHostThatIsNoLongerUsedIsLetGo) {
  begin_and_come_up({"n1", "n2"});
  begin_and_come_up({"n2", "n3"});
  EXPECT_THAT(said_, UnorderedElementsAre("up 0 n2", "up 1 n3"));
  ASSERT_EQ(bootstrap_.agents.size(), 3u);
  for (const auto& agent : bootstrap_.agents) EXPECT_EQ(agent->is_let_go(), agent->host == "n1") << agent->host;
}

TEST_F(KeptAgentsTest, AnAgentLinkedThroughSshIsStartedAgain) {
  bootstrap_.link_line = "MUSTER-LINK ssh as a test\n";
  bootstrap_.connects = false;
  on_note_ = [this](const std::string& line) {
    if (line.find("over ssh") == std::string::npos) return;
    loop_.post([this] { bootstrap_.connect(*bootstrap_.agents.back()); });
  };
  begin_and_come_up({"n1"});
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  ASSERT_EQ(bootstrap_.agents.size(), 2u);
  EXPECT_TRUE(played(0).is_let_go());
}

TEST_F(KeptAgentsTest, AStartThatWasCutShortNeedsAnotherBootstrap) {
  bootstrap_.broken = "n2";
  begin_and_come_up({"n1", "n2"});
  generation_->cancel_start();
  EXPECT_EQ(bootstrap_.cancels, 0) << "no start is under way";
  begin({"n1", "n3"});
  generation_->cancel_start();
  EXPECT_EQ(bootstrap_.cancels, 1);
  bootstrap_.cancels = 0;  // the next one is another bootstrap
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstraps_, 2);
}

TEST_F(KeptAgentsTest, AgentThatRefusesALaterGenerationIsReplaced) {
  begin_and_come_up({"n1", "n2"});
  for (const auto& agent : bootstrap_.agents) agent->refusal = "too few descriptors";
  begin_and_come_up({"n1", "n2"});
  EXPECT_THAT(said_, UnorderedElementsAre("up 0 n1", "up 1 n2"));
  EXPECT_THAT(started_, UnorderedElementsAre(0, 1)) << "each host once, although two agents were started there";
  ASSERT_EQ(bootstrap_.agents.size(), 4u);
  EXPECT_TRUE(played(0).is_let_go());
  EXPECT_TRUE(played(1).is_let_go());
  begin_and_come_up({"n1", "n2"});
  EXPECT_EQ(bootstrap_.agents.size(), 4u) << "the new agents are kept";
}

TEST_F(KeptAgentsTest, NewAgentThatRefusesFailsItsHost) {
  bootstrap_.refuses = true;
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("failed 0 n1: too few descriptors"));
  EXPECT_EQ(bootstrap_.agents.size(), 1u);
}

TEST_F(KeptAgentsTest, AgentThatDoesNotOpenInTimeIsReplaced) {
  begin_and_come_up({"n1"});
  played(0).opens = false;
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstrap_.agents.size(), 2u);
  EXPECT_TRUE(played(0).is_let_go());
}

// Otherwise srun would run once for each host.
TEST_F(KeptAgentsTest, ReplacementsStartTogether) {
  begin_and_come_up({"n1", "n2", "n3"});
  for (const auto& agent : bootstrap_.agents) agent->closes = false;
  begin({"n1", "n2", "n3"});
  turn_until([&] { return played(0).leaves > 0 && played(1).leaves > 0 && played(2).leaves > 0; });
  played(0).end();
  played(1).end();
  turn_until([&] { return bootstrap_.agents.size() == 5; });
  ASSERT_EQ(bootstrap_.starts.size(), 2u);
  EXPECT_THAT(bootstrap_.starts.back(), UnorderedElementsAre(played(0).host, played(1).host));
}

TEST_F(KeptAgentsTest, ListenerHearsThatATakenAgentRuns) {
  begin_and_come_up({"n1"});
  EXPECT_THAT(started_, ElementsAre(0));
  played(0).closes = false;
  begin({"n1"});
  turn_until([&] { return !started_.empty(); });
  EXPECT_THAT(started_, ElementsAre(0));
  EXPECT_THAT(said_, IsEmpty());
  EXPECT_EQ(bootstrap_.agents.size(), 1u);
}

TEST_F(KeptAgentsTest, CancelledStartReplacesNoAgent) {
  begin_and_come_up({"n1", "n2"});
  played(0).closes = false;
  played(1).opens = false;
  begin({"n1", "n2"});
  turn_until([&] { return played(0).leaves > 0 && played(1).opened.size() == 2; });
  generation_->cancel_start();
  EXPECT_EQ(bootstrap_.cancels, 0) << "no agent is being started";
  played(0).end();
  played(1).end();
  turn_for(200ms);
  EXPECT_EQ(bootstrap_.agents.size(), 2u);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(KeptAgentsTest, CancelledStartCancelsReplacements) {
  begin_and_come_up({"n1"});
  played(0).closes = false;
  begin({"n1"});
  turn_until([&] { return played(0).leaves > 0; });
  on_note_ = [this](const std::string& line) {
    if (line.find("a new agent is started") == std::string::npos) return;
    loop_.post([this] { generation_->cancel_start(); });
  };
  played(0).end();
  turn_until([&] { return !said_.empty(); });
  EXPECT_THAT(said_, ElementsAre("failed 0 n1: cancelled"));
  EXPECT_EQ(bootstrap_.cancels, 1);
  EXPECT_EQ(bootstrap_.agents.size(), 1u);
}

TEST_F(KeptAgentsTest, GenerationMayEndInEveryPhase) {
  bootstrap_.opens = false;
  begin({"n1"});
  begin({"n1"});  // the agent was being started
  turn_until([&] { return bootstrap_.agents.size() == 2 && played(1).opened.size() == 1; });
  played(1).opens = true;
  begin({"n1"});  // it was opening
  begin({"n1"});  // it was taken, and had not closed the last generation
  turn_until([&] { return !said_.empty(); });
  begin({"n1"});  // it was open
  generation_->leave(0);
  turn_until([&] { return played(1).leaves == 2; });
  turn_for(50ms);
  begin({"n1"});              // it was idle
  begin_and_come_up({"n1"});  // it was taken
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstrap_.agents.size(), 2u) << "an agent that was left while it opened is kept";
  generation_.reset();
  played(1).end();
  turn_for(50ms);
  EXPECT_EQ(said_.size(), 1u);
}

TEST_F(KeptAgentsTest, LateJobClosedDoesNotEndTheNextGeneration) {
  begin_and_come_up({"n1"});
  played(0).closes_twice = true;
  begin_and_come_up({"n1"});
  played(0).exit_rank(3);
  turn_until([&] { return said_.size() == 2; });
  EXPECT_THAT(said_, ElementsAre("up 0 n1", "exit 0 3"));
}

TEST_F(KeptAgentsTest, AgentThatEndsTheJobByItselfIsReportedOnce) {
  drops_ = false;
  begin_and_come_up({"n1"});
  played(0).close();
  played(0).close();
  turn_until([&] { return said_.size() >= 2; });
  played(0).end();
  turn_for(100ms);
  EXPECT_THAT(said_, ElementsAre("up 0 n1", "gone 0"));
  begin_and_come_up({"n1"});
  EXPECT_THAT(said_, ElementsAre("up 0 n1"));
  EXPECT_EQ(bootstrap_.agents.size(), 2u);
}

// The agents' log-ins begin before the job's ports are open.
TEST_F(KeptAgentsTest, StartThatFailsCanBeLeftAndTriedAgain) {
  begin_and_come_up({"n1"});
  const auto other =
      std::make_shared<KeptAgents>(loop_, OwnAgentsOptions{.job_id = base::JobId::random().str(), .session_root = ""},
                                   [this](int) { return &bootstrap_; });
  std::shared_ptr<JobAgents> generation = other->of_attempt(0);
  {
    const NoMoreFiles limit;
    EXPECT_FALSE(generation->start({{.target = {.name = "n2"}}}, &sink_, this).ok());
  }
  generation->drop(0);
  generation.reset();
  said_.clear();
  started_.clear();
  generation = other->of_attempt(1);
  ASSERT_TRUE(generation->start({{.target = {.name = "n2"}}}, &sink_, this).ok());
  turn_until([&] { return !said_.empty(); });
  EXPECT_THAT(said_, ElementsAre("up 0 n2"));
}

}  // namespace
}  // namespace muster::launcherd::kept_agents_test
