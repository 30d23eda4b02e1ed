#include "launcherd/plan/store_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_list.h"
#include "proto/muster/v1/store_plan.pb.h"

namespace muster::launcherd::store_tree_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

base::Environment fanout(const std::string& value) {
  base::Environment environment;
  environment.set("MUSTER_STORE_FANOUT", value);
  return environment;
}

// Hosts n1, n2, ... as they are after Prepare.
std::vector<HostFacts> hosts(int count) {
  std::vector<HostFacts> facts(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    HostFacts& fact = facts[static_cast<std::size_t>(i)];
    const std::string address = "10.0.0." + std::to_string(i + 1);
    fact.hello.set_hostname("n" + std::to_string(i + 1));
    fact.hello.add_cores()->add_cpus(0);
    v1::NetworkInterface* const entry = fact.hello.add_interfaces();
    entry->set_name("eth0");
    entry->set_address(address);
    fact.prepared.set_address(address);
    fact.prepared.add_held_ports(7'000 + i);
  }
  facts[0].prepared.set_horovod_port(6'000);
  return facts;
}

model::JobSpec job_of(const std::string& list) {
  model::JobSpec job;
  job.command = {"./a"};
  job.placement.hosts = *model::parse_host_list(list, "-H");
  return job;
}

v1::StorePlan store_plan(const v1::Launch& launch) {
  v1::StorePlan plan;
  EXPECT_TRUE(plan.ParseFromString(launch.stores()));
  return plan;
}

std::vector<std::string> peers(const v1::Launch& launch) {
  std::vector<std::string> addresses;
  for (const v1::JobPeer& peer : launch.peers()) addresses.push_back(peer.addresses(0));
  return addresses;
}

TEST(StoreFanout, IsSixtyFourUnlessSet) {
  EXPECT_EQ(store_fanout({}).value(), 64);
  EXPECT_EQ(store_fanout(fanout("2")).value(), 2);
  for (const char* wrong : {"0", "-1", "two", "99999999"}) {
    EXPECT_THAT(store_fanout(fanout(wrong)).status().message(), HasSubstr("MUSTER_STORE_FANOUT=")) << wrong;
  }
}

TEST(StoreTree, OnlyForManyHostsWhoseRanksDoNotChange) {
  model::JobSpec job;
  EXPECT_FALSE(store_tree(job, 64, {}));
  EXPECT_TRUE(store_tree(job, 65, {}));
  EXPECT_FALSE(store_tree(job, 2, fanout("2")));
  EXPECT_TRUE(store_tree(job, 3, fanout("2")));
  job.live.emplace();
  EXPECT_FALSE(store_tree(job, 1'000, {}));
}

TEST(StoreTree, EachHostLearnsItsParentAndMayBeAskedByItsChildren) {
  const model::JobSpec job = job_of("n1:1,n2:1,n3:1,n4:1,n5:1,n6:1");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const auto planned = plan_launch(job, *placement, hosts(6), {"abcdefgh"}, "10.0.0.1", fanout("2"));
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto& plans = planned->hosts;
  for (const v1::Launch& launch : plans) {
    EXPECT_EQ(store_plan(launch).hosts(), 6);
    EXPECT_EQ(store_plan(launch).fanout(), 2);
  }
  // 0 has the children 1 and 2, 1 has 3 and 4, 2 has 5.
  EXPECT_FALSE(store_plan(plans[0]).serves_on_held_port()) << "it has a port for that anyway";
  EXPECT_TRUE(store_plan(plans[1]).serves_on_held_port());
  EXPECT_TRUE(store_plan(plans[2]).serves_on_held_port());
  EXPECT_FALSE(store_plan(plans[3]).serves_on_held_port());
  EXPECT_EQ(plans[1].horovod_address(), "10.0.0.1");
  EXPECT_EQ(plans[1].horovod_port(), 6'000);
  EXPECT_EQ(plans[4].horovod_address(), "10.0.0.2");
  EXPECT_EQ(plans[4].horovod_port(), 7'001);
  EXPECT_EQ(plans[5].horovod_address(), "10.0.0.3");
  EXPECT_THAT(peers(plans[1]), ElementsAre("10.0.0.1", "10.0.0.4", "10.0.0.5"));
  EXPECT_THAT(peers(plans[5]), ElementsAre("10.0.0.1", "10.0.0.3"));
  EXPECT_EQ(plans[0].peers_size(), 5) << "ranks of all hosts may connect to rank 0's";
}

TEST(StoreTree, AStarIfAHostHoldsNoPort) {
  const model::JobSpec job = job_of("n1:1,n2:1,n3:1,n4:1");
  const auto placement = model::place(job.placement);
  std::vector<HostFacts> facts = hosts(4);
  facts[1].prepared.clear_held_ports();  // an older launcherd prepared it
  const auto planned = plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", fanout("2"));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->hosts[3].horovod_address(), "10.0.0.1");
  EXPECT_TRUE(planned->hosts[3].stores().empty());
}

TEST(StoreTree, ThePortAfterTensorFlowsIsTheTrees) {
  model::JobSpec job = job_of("n1:1,n2:1,n3:1,n4:1");
  job.runtime = model::Runtime::kTensorflow;
  const auto placement = model::place(job.placement);
  std::vector<HostFacts> facts = hosts(4);
  EXPECT_FALSE(prepared_store_tree(job, *placement, facts, fanout("2"))) << "the ports are those of the ranks";
  facts[1].prepared.add_held_ports(8'001);
  const auto tree = prepared_store_tree(job, *placement, facts, fanout("2"));
  ASSERT_TRUE(tree);
  v1::Launch launch;
  launch.set_host(3);
  set_store_tree(*tree, facts, launch);
  EXPECT_EQ(launch.horovod_port(), 8'001);
}

TEST(StoreTree, AWrongFanoutIsRefused) {
  const model::JobSpec job = job_of("n1:1,n2:1");
  const auto placement = model::place(job.placement);
  const auto planned = plan_launch(job, *placement, hosts(2), {"abcdefgh"}, "10.0.0.1", fanout("many"));
  EXPECT_EQ(planned.status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::store_tree_test
