// Tests the conversation with several hosts. Threads stand for the agents and answer like them.
#include "launcherd/doctor/host_probes.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/doctor/judge.h"
#include "proto/frame.h"

namespace muster::launcherd::host_probes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// Says how one host behaves.
struct FakeHost {
  std::optional<FailureKind> fails{};  // set if the host does not start
  bool ends_before_facts = false;
  std::chrono::seconds clock_offset{0};
  std::string reach_failure{};
  std::string address{};
};

class FakeBootstrap final : public Bootstrap {
 public:
  ~FakeBootstrap() override {
    for (std::thread& thread : threads_) thread.join();
  }

  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override {
    const FakeHost& host = hosts.at(target.name);
    {
      const std::lock_guard lock(mutex_);
      EXPECT_TRUE(join.get().ok());
      v1::AgentJoin parsed;
      EXPECT_TRUE(parsed.ParseFromString(join.get()->substr(4)));
      joins[target.name] = parsed;
    }
    if (host.fails) {
      on_failure(target, *host.fails);
      return done(to_status({.kind = *host.fails, .host = target.name}));
    }
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    StartedAgent agent;
    agent.stream = std::move(pair->first);
    agent.backend = "libssh";
    threads_.emplace_back(
        [this, &host, fd = std::make_shared<base::UniqueFd>(std::move(pair->second))] { play(host, fd->get()); });
    done(std::move(agent));
  }
  void run(const BootstrapTarget&, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)>) override {
    FAIL() << "nothing is run";
  }
  void cancel() override {}

  std::map<std::string, FakeHost> hosts;
  std::map<std::string, v1::AgentJoin> joins;
  std::vector<v1::Reach> reached;
  std::vector<v1::AskFacts> asked;
  std::function<void(const BootstrapTarget&, FailureKind)> on_failure;

 private:
  void play(const FakeHost& host, int fd) {
    v1::ProbeCommand command;
    while (true) {
      const auto got = proto::read_message_blocking(fd, command);
      if (!got.ok() || !*got) return;
      v1::ProbeAnswer answer;
      if (command.has_read_clock()) {
        const auto now = std::chrono::system_clock::now().time_since_epoch() + host.clock_offset;
        answer.mutable_clock()->set_wall_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
      } else if (command.has_ask_facts()) {
        if (host.ends_before_facts) return;
        const std::lock_guard lock(mutex_);
        asked.push_back(command.ask_facts());
        v1::NetworkInterface& interface = *answer.mutable_facts()->mutable_hello()->add_interfaces();
        interface.set_name("eth0");
        interface.set_address(host.address);
        answer.mutable_facts()->set_listen_port(4242);
      } else {
        const std::lock_guard lock(mutex_);
        reached.push_back(command.reach());
        answer.mutable_reached()->set_failure(host.reach_failure);
        if (host.reach_failure.empty()) answer.mutable_reached()->set_address(command.reach().addresses(0));
      }
      const std::string frame = *proto::frame_message(answer);
      if (!base::write_all_blocking(fd, frame.data(), frame.size()).ok()) return;
    }
  }

  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

class HostProbesTest : public ::testing::Test {
 protected:
  std::vector<HostFindings> probe(const std::vector<std::string>& names, bool shape_only = false) {
    ProbePlan plan;
    for (const std::string& name : names) plan.hosts.push_back({.name = name});
    plan.shape_only = shape_only;
    plan.environment.set("FROM_LAUNCHER", "yes");
    plan.environment.set("MUSTER_TMPDIR", "/scratch");
    std::vector<HostFindings> findings;
    HostProbes probes(loop_, &bootstrap_, std::move(plan),
                      {.on_progress = [&](const std::vector<std::string>& waiting) { waiting_.push_back(waiting); },
                       .on_done =
                           [&](std::vector<HostFindings> found) {
                             findings = std::move(found);
                             loop_.stop();
                           }});
    bootstrap_.on_failure = [&](const BootstrapTarget& target, FailureKind kind) { probes.failed(target, kind); };
    EXPECT_TRUE(probes.start().ok());
    const base::Timer give_up = loop_.after(30s, [this] { loop_.stop(); });
    loop_.run();
    return findings;
  }

  FakeBootstrap bootstrap_;
  base::Loop loop_;
  std::vector<std::vector<std::string>> waiting_;
};

TEST_F(HostProbesTest, EveryHostIsAskedAndTheOthersReachTheFirst) {
  bootstrap_.hosts = {{"n1", {.address = "10.0.0.1"}},
                      {"n2", {.clock_offset = 100s, .address = "10.0.0.2"}},
                      {"n3", {.reach_failure = "10.0.0.1:4242: no answer", .address = "10.0.0.3"}}};
  const auto found = probe({"n1", "n2", "n3"});
  ASSERT_EQ(found.size(), 3u);
  for (const HostFindings& each : found) {
    EXPECT_TRUE(each.status.ok()) << each.status;
    EXPECT_TRUE(each.facts && each.clock);
  }
  EXPECT_FALSE(found[0].peer);
  ASSERT_TRUE(found[1].peer && found[2].peer);
  EXPECT_EQ(found[1].peer->host + " " + found[1].peer->address + found[1].peer->failure, "n1 10.0.0.1");
  EXPECT_EQ(found[2].peer->failure, "10.0.0.1:4242: no answer");
  ASSERT_EQ(bootstrap_.reached.size(), 2u);
  EXPECT_EQ(bootstrap_.reached[0].port(), 4242);
  EXPECT_LE(std::chrono::abs(found[0].clock->offset), found[0].clock->uncertainty);
  EXPECT_GE(found[1].clock->offset, 100s - found[1].clock->uncertainty);
  EXPECT_LE(found[1].clock->offset, 100s + found[1].clock->uncertainty);
  EXPECT_THAT(waiting_.front(), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(waiting_.back(), IsEmpty());
}

TEST_F(HostProbesTest, TheJoinAsksForNoJob) {
  bootstrap_.hosts = {{"n1", {}}};
  probe({"n1"});
  const v1::AgentJoin& join = bootstrap_.joins.at("n1");
  EXPECT_TRUE(join.probe());
  EXPECT_GT(join.output_port(), 0);
  EXPECT_EQ(join.session_root(), "/scratch");
  EXPECT_EQ(join.token(), "");
  ASSERT_EQ(bootstrap_.asked.size(), 1u);
  const auto& environment = bootstrap_.asked[0].environment();
  EXPECT_TRUE(std::ranges::any_of(environment, [](const v1::EnvVar& each) { return each.name() == "FROM_LAUNCHER"; }));
}

TEST_F(HostProbesTest, HostsThatFailHoldUpNobody) {
  bootstrap_.hosts = {{"n1", {.fails = FailureKind::kAuthRefused}},
                      {"n2", {.address = "10.0.0.2"}},
                      {"n3", {.ends_before_facts = true}},
                      {"n4", {.address = "10.0.0.4"}}};
  const auto found = probe({"n1", "n2", "n3", "n4"});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].failure, FailureKind::kAuthRefused);
  EXPECT_FALSE(found[0].status.ok());
  EXPECT_FALSE(found[2].status.ok());
  EXPECT_FALSE(found[2].failure);
  EXPECT_THAT(found[2].status.message(), HasSubstr("host n3: its agent ended"));
  EXPECT_TRUE(found[1].facts && !found[1].peer);
  ASSERT_TRUE(found[3].peer);
  EXPECT_EQ(found[3].peer->host, "n2");
  const auto diagnoses = judge_hosts(found, "auto");
  EXPECT_EQ(diagnoses[0].state(), model::CheckState::kFail);
}

TEST_F(HostProbesTest, NobodyAnswers) {
  bootstrap_.hosts = {{"n1", {.fails = FailureKind::kRefused}}, {"n2", {.fails = FailureKind::kNameNotFound}}};
  EXPECT_TRUE(no_host_answered(probe({"n1", "n2"})));
}

TEST_F(HostProbesTest, ShapesAlone) {
  bootstrap_.hosts = {{"n1", {.address = "10.0.0.1"}}, {"n2", {.address = "10.0.0.2"}}};
  const auto found = probe({"n1", "n2"}, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[1].facts && !found[1].clock && !found[1].peer);
  EXPECT_TRUE(bootstrap_.asked.at(0).shape_only());
  EXPECT_EQ(bootstrap_.asked[0].environment_size(), 0);
  EXPECT_EQ(bootstrap_.joins.at("n1").output_port(), 0);
}

}  // namespace
}  // namespace muster::launcherd::host_probes_test
