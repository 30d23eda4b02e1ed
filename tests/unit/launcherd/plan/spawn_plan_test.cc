#include "launcherd/plan/spawn_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/convert.h"

namespace muster::launcherd::spawn_plan_test {
namespace {

using Hosts = std::vector<int>;

v1::SpawnRequest asking_for(const std::vector<int>& ranks) {
  v1::SpawnRequest request;
  request.set_id(7);
  request.set_rank(1);
  for (const int count : ranks) {
    v1::SpawnProgram& program = *request.add_programs();
    program.add_command("./worker" + std::to_string(request.programs_size()));
    program.set_ranks(count);
  }
  return request;
}

SpawnHost host(std::string name, int slots, int running) {
  return {.name = std::move(name), .slots = slots, .running = running};
}

Hosts hosts_of(const v1::SpawnRequest& request, const std::vector<SpawnHost>& hosts, bool oversubscribe) {
  const auto placed = place_spawned(request, hosts, oversubscribe);
  return placed.ok() ? *placed : Hosts();
}

std::string refusal(const v1::SpawnRequest& request, const std::vector<SpawnHost>& hosts, bool oversubscribe = false) {
  const auto placed = place_spawned(request, hosts, oversubscribe);
  return placed.ok() ? "" : placed.status().message();
}

TEST(PlaceSpawned, FillsFreeSlotsInTheOrderOfTheHosts) {
  const std::vector<SpawnHost> hosts{host("n1", 2, 2), host("n2", 3, 1), host("n3", 2, 1)};
  EXPECT_EQ(hosts_of(asking_for({3}), hosts, false), (Hosts{1, 1, 2}));
  EXPECT_EQ(hosts_of(asking_for({1, 2}), hosts, false), (Hosts{1, 1, 2}));
}

TEST(PlaceSpawned, RefusesMoreThanTheFreeSlots) {
  const auto placed = place_spawned(asking_for({2}), {host("n1", 2, 1), host("n2", 1, 1)}, false);
  ASSERT_FALSE(placed.ok());
  EXPECT_EQ(placed.status().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(placed.status().message(),
            "the request asks for 2 ranks, but the job's hosts have 1 free slots: start the job with more slots (as -H "
            "n1:8) or "
            "with --oversubscribe");
}

TEST(PlaceSpawned, GoesBeyondTheSlotsInTurnWhenOversubscribing) {
  const std::vector<SpawnHost> hosts{host("n1", 2, 1), host("n2", 1, 1)};
  EXPECT_EQ(hosts_of(asking_for({4}), hosts, true), (Hosts{0, 0, 0, 1}));
}

TEST(PlaceSpawned, NeverExceedsMaxSlots) {
  std::vector<SpawnHost> hosts{host("n1", 1, 1), host("n2", 1, 1)};
  hosts[0].most = 2;
  EXPECT_EQ(hosts_of(asking_for({4}), hosts, true), (Hosts{0, 1, 1, 1}));
  hosts[1].most = 2;
  EXPECT_NE(refusal(asking_for({4}), hosts, true), "");
}

TEST(PlaceSpawned, KeepsToTheHostsThatTheProgramAllows) {
  const std::vector<SpawnHost> hosts{host("n1", 4, 1), host("n2", 4, 1)};
  v1::SpawnRequest request = asking_for({2});
  request.mutable_programs(0)->add_hosts("n2:2");
  EXPECT_EQ(hosts_of(request, hosts, false), (Hosts{1, 1}));
  request.mutable_programs(0)->set_ranks(4);
  EXPECT_NE(refusal(request, hosts).find("have 3 free slots among those that the request allows"), std::string::npos);
  request.mutable_programs(0)->add_hosts("elsewhere");
  EXPECT_EQ(refusal(request, hosts), "host elsewhere runs no rank of this job: only hosts that run one can get more");
}

TEST(PlaceSpawned, LeavesOutHostsWhoseRanksHaveEnded) {
  std::vector<SpawnHost> hosts{host("n1", 4, 0), host("n2", 2, 1)};
  hosts[0].is_usable = false;
  EXPECT_EQ(hosts_of(asking_for({1}), hosts, false), (Hosts{1}));
  EXPECT_EQ(hosts_of(asking_for({2}), hosts, true), (Hosts{1, 1}));
}

TEST(PlaceSpawned, RefusesRequestsThatMakeNoSense) {
  const std::vector<SpawnHost> hosts{host("n1", 4, 1)};
  EXPECT_NE(refusal(asking_for({}), hosts), "");
  EXPECT_NE(refusal(asking_for({0}), hosts), "");
  EXPECT_NE(refusal(asking_for({-3}), hosts), "");
  EXPECT_NE(refusal(asking_for({2'000'000'000, 2'000'000'000, 2'000'000'000}), hosts, true), "");
  v1::SpawnRequest nameless = asking_for({1});
  nameless.mutable_programs(0)->clear_command();
  EXPECT_NE(refusal(nameless, hosts), "");
}

class PlanSpawned : public ::testing::Test {
 protected:
  PlanSpawned() {
    job_.command = {"./manager"};
    job_.workdir = "/home";
    placement_.size = 3;
    for (const char* name : {"n1", "n2", "n3"}) {
      model::PlacedHost& host = placement_.hosts.emplace_back();
      host.host.name = name;
      host.slots = 3;
      host.ranks.push_back({.rank = static_cast<int>(placement_.hosts.size()) - 1});
      facts_.emplace_back().hello.set_hostname(name);
    }
  }

  std::vector<v1::AddWorld> plan(const v1::SpawnRequest& request, const Hosts& host_of) {
    auto planned = plan_spawned(job_, placement_, facts_, {"abcdefgh", 0}, "10.0.0.1", {}, request,
                                {.name = "muster-abcdefgh-0-3", .first = 3, .host_of = host_of});
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? *planned : std::vector<v1::AddWorld>();
  }

  static std::map<std::string, std::string> variables(const v1::LaunchRank& rank) {
    std::map<std::string, std::string> result;
    for (const auto& [name, value] : proto::environment_of(rank.environment())) result[name] = value;
    return result;
  }

  model::JobSpec job_;
  model::Placement placement_;
  std::vector<HostFacts> facts_;
};

TEST_F(PlanSpawned, TellsEveryHostOfTheWorldAndItsOwnRanks) {
  const auto messages = plan(asking_for({1, 2}), {1, 2, 2});
  ASSERT_EQ(messages.size(), 3u);
  const std::vector<std::vector<int>> expected{{}, {3}, {4, 5}};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].first(), 3);
    EXPECT_EQ(messages[i].spawner(), 1);
    EXPECT_EQ(messages[i].launch().host(), static_cast<int>(i));
    std::vector<int> numbers;
    for (const v1::LaunchRank& rank : messages[i].launch().ranks()) numbers.push_back(rank.rank());
    EXPECT_EQ(numbers, expected[i]);
    EXPECT_EQ(messages[i].launch().world(), messages[0].launch().world());
  }
  EXPECT_EQ(messages[1].launch().ranks(0).command(0), "./worker1");
  EXPECT_EQ(messages[2].launch().ranks(1).command(0), "./worker2");
}

TEST_F(PlanSpawned, CountsTheWorldFromZero) {
  v1::World world;
  ASSERT_TRUE(world.ParseFromString(plan(asking_for({1, 2}), {1, 2, 2})[0].launch().world()));
  EXPECT_EQ(world.name(), "muster-abcdefgh-0-3");
  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(world.universe(), 9);
  ASSERT_EQ(world.hosts_size(), 3);
  EXPECT_EQ(world.hosts(0).ranks_size(), 0);
  EXPECT_EQ(world.hosts(1).ranks(0), 0);
  EXPECT_EQ(world.hosts(2).ranks(1), 2);
  ASSERT_EQ(world.programs_size(), 2);
  EXPECT_EQ(world.programs(1).ranks(), 2);
}

TEST_F(PlanSpawned, GivesTheProgramsEnvironmentButNotItsSpawnersRank) {
  v1::SpawnRequest request = asking_for({2});
  request.mutable_programs(0)->set_workdir("/elsewhere");
  proto::set_environment({{"OMPI_PARENT_PORT", "1.0:2"}, {"OMPI_COMM_WORLD_RANK", "9"}, {"MUSTER_RANK", "9"}},
                         *request.mutable_programs(0)->mutable_environment());
  const auto messages = plan(request, {0, 1});
  const v1::LaunchRank& second = messages[1].launch().ranks(0);
  auto has = variables(second);
  EXPECT_EQ(has["OMPI_PARENT_PORT"], "1.0:2");
  EXPECT_EQ(has["MUSTER_RANK"], "1");
  EXPECT_EQ(has["MUSTER_SIZE"], "2");
  EXPECT_NE(has["OMPI_COMM_WORLD_RANK"], "9");
  EXPECT_EQ(second.workdir(), "/elsewhere");
  EXPECT_FALSE(second.input());
  EXPECT_EQ(second.cpus_size(), 0) << "they are not bound";
}

TEST_F(PlanSpawned, NamesTheInterfaceToThePeersOfOtherHosts) {
  facts_[2].prepared.set_interface("eth2");
  v1::SpawnRequest request = asking_for({1});
  proto::set_environment({{"OMPI_MCA_btl_tcp_if_include", "eth0"}},
                         *request.mutable_programs(0)->mutable_environment());
  const auto messages = plan(request, {2});
  ASSERT_EQ(messages[2].launch().ranks_size(), 1);
  auto has = variables(messages[2].launch().ranks(0));
  EXPECT_EQ(has["OMPI_MCA_btl_tcp_if_include"], "eth2");
  EXPECT_EQ(has["MUSTER_NNODES"], "1");
}

}  // namespace
}  // namespace muster::launcherd::spawn_plan_test
