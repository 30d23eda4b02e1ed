#include "launcherd/jobs/launch_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::launcherd {
namespace {

HostFacts host(const std::string& name, const std::vector<std::string>& addresses) {
  HostFacts facts;
  facts.hello.set_hostname(name);
  facts.hello.set_netns_inode(1);
  for (const std::string& address : addresses) {
    v1::NetworkInterface* entry = facts.hello.add_interfaces();
    entry->set_name("eth0");
    entry->set_address(address);
  }
  for (int i = 0; i < 4; ++i) facts.hello.add_cores()->add_cpus(i);
  return facts;
}

std::map<std::string, std::string> environment(const v1::LaunchRank& rank) {
  std::map<std::string, std::string> result;
  for (const v1::EnvVar& entry : rank.environment()) result[entry.name()] = entry.value();
  return result;
}

TEST(ChooseInterface, ByNameByNetworkOrBoth) {
  HostFacts facts = host("n1", {"10.0.0.1"});
  v1::NetworkInterface* fast = facts.hello.add_interfaces();
  fast->set_name("ib0");
  fast->set_address("10.9.0.1");
  model::JobSpec job;
  EXPECT_FALSE(is_network_chosen(job));
  job.network_interfaces = {"hsn0", "ib0", "eth0"};  // hsn0 is another host's
  EXPECT_TRUE(is_network_chosen(job));
  EXPECT_EQ(choose_interface(facts.hello, job)->address(), "10.9.0.1");
  EXPECT_EQ(*choose_master_address({facts, host("n2", {"10.0.0.2"})}, job), "10.9.0.1");
  job.network_interfaces.clear();
  job.network = *base::IpNetwork::parse("10.0.0.0/24");
  EXPECT_EQ(choose_interface(facts.hello, job)->name(), "eth0");
  job.network_interfaces = {"ib0"};
  EXPECT_FALSE(choose_interface(facts.hello, job).ok());
  job.network = *base::IpNetwork::parse("192.168.0.0/16");
  EXPECT_EQ(choose_interface(facts.hello, job).status().message(),
            "none of its interfaces is in --network 192.168.0.0/16: it has eth0 10.0.0.1, ib0 10.9.0.1");
}

TEST(MasterAddress, OneHostIsLoopback) {
  EXPECT_EQ(*choose_master_address({host("n1", {"10.0.0.1"})}, {}), "127.0.0.1");
}

TEST(MasterAddress, WhereSshdWasReached) {
  auto first = host("n1", {"192.168.9.1", "10.0.0.1", "127.0.0.1"});
  first.hello.set_ssh_server_address("10.0.0.1");
  EXPECT_EQ(*choose_master_address({first, host("n2", {"10.0.0.2"})}, {}), "10.0.0.1");
}

TEST(MasterAddress, TranslatedAddressIsNotUsed) {
  // Reached as 203.0.113.5 through a port forward: not an address of the host, so its own one counts.
  auto first = host("n1", {"10.0.0.1"});
  first.hello.set_ssh_server_address("172.17.0.2");
  first.host_address = *base::IpAddress::parse("203.0.113.5");
  EXPECT_EQ(*choose_master_address({first, host("n2", {"10.0.0.2"})}, {}), "10.0.0.1");
}

TEST(MasterAddress, LocalRankZeroIsReachedAsTheLauncherIs) {
  auto first = host("head", {"192.168.9.1", "10.0.0.9", "127.0.0.1"});
  first.local = true;
  auto second = host("n2", {"10.0.0.2"});
  second.launcher_addresses = {*base::IpAddress::parse("10.0.0.9")};
  EXPECT_EQ(*choose_master_address({first, second}, {}), "10.0.0.9");
}

TEST(MasterAddress, LoopbackOnlyHostIsAnError) {
  const auto address = choose_master_address({host("n1", {"127.0.0.1"}), host("n2", {"10.0.0.2"})}, {});
  ASSERT_FALSE(address.ok());
  EXPECT_NE(address.status().message().find("n1"), std::string::npos);
}

TEST(SameHosts, NameNamespaceAndUidTogether) {
  auto a = host("n1", {});
  auto b = host("n1", {});
  auto c = host("n1", {});
  c.hello.set_netns_inode(2);
  auto d = host("n2", {});
  EXPECT_EQ(find_same_hosts({a, b, c, d}), (std::vector<int>{0, 0, 2, 3}));
}

TEST(LaunchPlan, EveryRankKnowsWhoItIs) {
  model::JobSpec job;
  job.command = {"./a", "b c"};
  job.workdir = "/w";
  job.placement.hosts = *model::parse_host_list("n1:2,n2:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  facts[0].prepared.set_master_port(4242);
  facts[0].prepared.set_interface("eth7");
  facts[1].prepared.set_interface("bond3");
  facts[1].hello.set_session_dir("/tmp/muster-1/s");
  base::Environment launcher;
  launcher.set("MY_SETTING", "x y");
  launcher.set("HOME", "/home/me");
  const auto plans = plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher).hosts;
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].command(1), "b c");
  EXPECT_EQ(plans[1].workdir(), "/w");
  ASSERT_EQ(plans[0].ranks_size(), 2);
  const auto third = environment(plans[1].ranks(0));
  EXPECT_EQ(third.at("MUSTER_RANK"), "2");
  EXPECT_EQ(third.at("RANK"), "2");
  EXPECT_EQ(third.at("LOCAL_RANK"), "0");
  EXPECT_EQ(third.at("GROUP_RANK"), "1");
  EXPECT_EQ(third.at("HOROVOD_CROSS_RANK"), "1");
  EXPECT_EQ(third.at("WORLD_SIZE"), "3");
  EXPECT_EQ(third.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(third.at("MASTER_PORT"), "4242");
  EXPECT_EQ(third.at("GLOO_SOCKET_IFNAME"), "bond3");
  EXPECT_EQ(third.at("MUSTER_SESSION_DIR"), "/tmp/muster-1/s");
  EXPECT_EQ(third.at("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(plans[1].ranks(0).cpus_size(), 4);
  EXPECT_EQ(plans[0].ranks(0).cpus_size(), 2);
  bool has_setting = false;
  for (const v1::EnvVar& entry : plans[0].environment()) {
    has_setting = has_setting || (entry.name() == "MY_SETTING" && entry.value() == "x y");
    EXPECT_NE(entry.name(), "HOME");
  }
  EXPECT_TRUE(has_setting);
}

TEST(LaunchPlan, WhoReadsAndWhoHasATerminal) {
  model::JobSpec job;
  job.command = {"./a"};
  job.placement.hosts = *model::parse_host_list("n1:1,n2:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  base::Environment launcher;
  launcher.set("TERM", "vt220");
  const auto plan = [&] { return plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher).hosts; };
  job.input = {model::InputTo::kRank, 1};
  EXPECT_FALSE(plan()[0].ranks(0).input());
  EXPECT_TRUE(plan()[1].ranks(0).input());
  EXPECT_FALSE(environment(plan()[0].ranks(0)).contains("TERM"));
  job.input = {model::InputTo::kRank, 0, true};
  EXPECT_TRUE(plan()[0].ranks(0).pty() && plan()[0].ranks(0).input());
  EXPECT_FALSE(plan()[1].ranks(0).pty() || plan()[1].ranks(0).input());
  EXPECT_EQ(environment(plan()[0].ranks(0)).at("TERM"), "vt220");
  EXPECT_FALSE(environment(plan()[1].ranks(0)).contains("TERM"));
  job.environment.named = {"TERM=dumb"};
  EXPECT_FALSE(environment(plan()[0].ranks(0)).contains("TERM")) << "the user's own, for every rank";
}

TEST(LaunchPlan, WordsAreExpandedForEachRankWhereAsked) {
  model::JobSpec job;
  job.command = {"./a", "{rank}", "tcp://{master_addr}:{master_port}/{host}", "{rank}"};
  job.expand = {1, 2};
  job.limits = {{7, 1, 2}};
  job.placement.hosts = *model::parse_host_list("n1:1,n2:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  facts[0].prepared.set_master_port(4242);
  const auto plans = plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {}).hosts;
  const auto& command = plans.at(1).ranks(0).command();
  EXPECT_EQ(std::vector<std::string>(command.begin(), command.end()),
            (std::vector<std::string>{"./a", "1", "tcp://10.0.0.1:4242/n2", "{rank}"}));
  EXPECT_EQ(plans[1].limits(0).hard(), 2U);
  job.expand.clear();
  EXPECT_EQ(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {}).hosts.at(1).ranks(0).command_size(), 0);
}

// The job's ranks on a host of two sockets, GPU 0 at the second.
LaunchPlan plan_with_gpus(const model::JobSpec& job, int ranks) {
  auto facts = host("n1", {"10.0.0.1"});
  facts.hello.mutable_cores(2)->set_socket(1);
  facts.hello.mutable_cores(3)->set_socket(1);
  for (int i = 0; i < 2; ++i) {
    v1::Gpu* gpu = facts.hello.add_gpus();
    gpu->set_vendor(v1::GPU_VENDOR_NVIDIA);
    gpu->set_index(i);
    gpu->set_uuid(fmt::format("GPU-{}", i));
    for (int cpu = 2 - 2 * i; cpu < 4 - 2 * i; ++cpu) gpu->add_cpus(cpu);
  }
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list(fmt::format("n1:{}", ranks), "-H");
  return plan_launch(job, *model::place(request), {facts}, {"abcdefgh"}, "127.0.0.1", {});
}

std::string visible(const LaunchPlan& plan, int rank) {
  const auto variables = environment(plan.hosts.at(0).ranks(rank));
  const auto found = variables.find("CUDA_VISIBLE_DEVICES");
  return found == variables.end() ? "-" : found->second;
}

TEST(LaunchPlan, EveryRankFindsItsGpu) {
  model::JobSpec job;
  job.command = {"./a"};
  EXPECT_EQ(visible(plan_with_gpus(job, 2), 0), "GPU-1,GPU-0");
  EXPECT_EQ(visible(plan_with_gpus(job, 2), 1), "GPU-1,GPU-0");
  EXPECT_TRUE(plan_with_gpus(job, 2).warnings.empty());
  job.gpu_bind = model::GpuBind::kOne;
  EXPECT_EQ(visible(plan_with_gpus(job, 2), 1), "GPU-0");
  job.gpu_bind = model::GpuBind::kNone;
  EXPECT_EQ(visible(plan_with_gpus(job, 3), 1), "-");
  EXPECT_TRUE(plan_with_gpus(job, 3).warnings.empty());
}

TEST(LaunchPlan, TheUsersMaskIsWhatIsDealt) {
  model::JobSpec job;
  job.command = {"./a"};
  job.environment.named = {"CUDA_VISIBLE_DEVICES=0"};
  const LaunchPlan plan = plan_with_gpus(job, 2);
  EXPECT_EQ(visible(plan, 1), "GPU-0");
  EXPECT_EQ(plan.warnings, std::vector<std::string>{"n1: 2 ranks but 1 GPU: all use that one"});
  job.environment.named.clear();
  EXPECT_EQ(plan_with_gpus(job, 3).warnings,
            std::vector<std::string>{"n1: 3 ranks but 2 GPUs: local rank R uses number R modulo that"});
}

}  // namespace
}  // namespace muster::launcherd
