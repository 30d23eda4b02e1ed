#include "launcherd/plan/launch_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "model/dmlc.h"
#include "model/job_placement.h"
#include "proto/world_bytes.h"

namespace muster::launcherd::launch_plan_test {
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

LaunchPlan planned(base::Result<LaunchPlan> plan) {
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : LaunchPlan();
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
  job.network_interfaces = {"hsn0", "ib0", "eth0"};  // hsn0 belongs to another host
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
            "no network interface of the host matches --network 192.168.0.0/16; it has eth0 10.0.0.1, ib0 10.9.0.1");
}

TEST(MasterAddress, OneHostIsLoopback) {
  EXPECT_EQ(*choose_master_address({host("n1", {"10.0.0.1"})}, {}), "127.0.0.1");
}

TEST(MasterAddress, OneHostOfALiveJobCanBeReached) {
  model::JobSpec job;
  job.live.emplace();
  EXPECT_EQ(*choose_master_address({host("n1", {"127.0.0.1", "10.0.0.1"})}, job), "10.0.0.1");
  EXPECT_EQ(*choose_master_address({host("n1", {"127.0.0.1"})}, job), "127.0.0.1");
}

TEST(MasterAddress, WhereSshdWasReached) {
  auto first = host("n1", {"192.168.9.1", "10.0.0.1", "127.0.0.1"});
  first.hello.set_ssh_server_address("10.0.0.1");
  EXPECT_EQ(*choose_master_address({first, host("n2", {"10.0.0.2"})}, {}), "10.0.0.1");
}

TEST(MasterAddress, TranslatedAddressIsNotUsed) {
  // A port forward hides the host behind 203.0.113.5. That is not an address of the host, so the host's own address
  // counts.
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

TEST(SameHosts, CopiesOfAMachineAreNot) {
  const auto a = host("ubuntu", {"127.0.0.1", "10.0.0.1", "192.168.0.1"});
  const auto b = host("ubuntu", {"127.0.0.1", "10.0.0.2", "192.168.0.1"});
  EXPECT_EQ(find_same_hosts({a, b, a}), (std::vector<int>{0, 1, 0}));
}

TEST(LaunchPlan, TorchrunLearnsWhereItsNodesMeet) {
  model::JobSpec job;
  job.command = {"torchrun", "train.py"};
  job.placement.hosts = *model::parse_host_list("n1:4,n2:4", "-H");
  job.placement.np = 2;
  job.placement.map_by = model::MapBy::kNode;
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  facts[0].prepared.set_master_port(4242);
  facts[1].prepared.set_address("10.0.0.2");
  base::Environment launcher;
  auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher)).hosts;
  const auto second = environment(plans[1].ranks(0));
  EXPECT_EQ(second.at("PET_RDZV_ENDPOINT"), "10.0.0.1:4242");
  EXPECT_EQ(second.at("PET_LOCAL_ADDR"), "10.0.0.2");
  EXPECT_EQ(second.at("PET_NNODES"), "2");
  EXPECT_EQ(second.at("PET_NPROC_PER_NODE"), "4");   // the slots of the host that it has to itself
  launcher.set("PET_RDZV_ENDPOINT", "elsewhere:1");  // the user's own rendezvous
  plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher)).hosts;
  EXPECT_FALSE(environment(plans[1].ranks(0)).contains("PET_NNODES"));
  job.command = {"python", "train.py"};
  plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  for (const auto& [name, value] : environment(plans[1].ranks(0))) EXPECT_FALSE(name.starts_with("PET_")) << name;
}

TEST(LaunchPlan, TorchsWatchdogIsServedOnRequest) {
  model::JobSpec job;
  job.command = {"train.py"};
  job.torch_agent_store = true;
  job.placement.hosts = *model::parse_host_list("n1:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"})};
  base::Environment launcher;
  const auto is_served = [&] {
    const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher)).hosts;
    EXPECT_EQ(environment(plans[0].ranks(0)).contains("TORCHELASTIC_TIMER_FILE"), plans[0].serves_torch_watchdog());
    return plans[0].serves_torch_watchdog();
  };
  EXPECT_FALSE(is_served());
  launcher.set("TORCHELASTIC_ENABLE_FILE_TIMER", "1");
  EXPECT_TRUE(is_served());
  job.environment.named = {"TORCHELASTIC_ENABLE_FILE_TIMER=0"};
  EXPECT_FALSE(is_served());
  job.environment.named = {"TORCHELASTIC_ENABLE_FILE_TIMER=1"};
  EXPECT_TRUE(is_served());
  job.torch_agent_store = false;
  EXPECT_FALSE(is_served());
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
  const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher)).hosts;
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

TEST(LaunchPlan, EveryRankHasASpanOfItsJobsTrace) {
  model::JobSpec job;
  job.command = {"train"};
  job.placement.hosts = *model::parse_host_list("n1:1,n2:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  base::Environment launcher;
  launcher.set("TRACEPARENT", "of the caller");
  Attempt attempt{.job_id = "abcdefgh", .number = 2};
  auto plans = planned(plan_launch(job, *placement, facts, attempt, "10.0.0.1", launcher)).hosts;
  EXPECT_FALSE(environment(plans[1].ranks(0)).contains("TRACEPARENT"));  // it comes with the job's variables
  attempt.trace = model::trace_of_job({}, "abcdefgh", {});
  plans = planned(plan_launch(job, *placement, facts, attempt, "10.0.0.1", launcher)).hosts;
  EXPECT_EQ(environment(plans[1].ranks(0)).at("TRACEPARENT"),
            model::traceparent(model::trace_within(*attempt.trace, model::rank_span_name(2, 1))));
}

TEST(LaunchPlan, ProcessesOfAnElasticJobHaveNumbers) {
  model::JobSpec job;
  job.command = {"a.out"};
  job.placement.hosts = *model::parse_host_list("n1:1,n2:2,n3:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"}), host("n3", {"10.0.0.3"})};
  const LaunchPlan fixed = planned(plan_launch(job, *placement, facts, {"abcdefgh", 0}, "10.0.0.1", {}));
  EXPECT_TRUE(fixed.hosts[1].live_members().empty());
  EXPECT_FALSE(environment(fixed.hosts[1].ranks(0)).contains("HOROVOD_ELASTIC"));
  EXPECT_EQ(fixed.hosts[1].peers_size(), 1);
  job.live.emplace();
  const LaunchPlan live = planned(plan_launch(job, *placement, facts, {"abcdefgh", 0}, "10.0.0.1", {}));
  const v1::Launch& second = live.hosts[1];
  ASSERT_EQ(second.live_members_size(), 2);
  const v1::LiveMember& member = second.live_members(1);
  EXPECT_EQ(member.number(), 2);
  EXPECT_EQ(member.rank(), 2);
  EXPECT_EQ(member.size(), 4);
  EXPECT_EQ(member.local_rank(), 1);
  EXPECT_EQ(member.local_size(), 2);
  EXPECT_EQ(second.peers_size(), 2) << "each host may later have the store";
  EXPECT_EQ(environment(second.ranks(0)).at("HOROVOD_ELASTIC"), "1");
  EXPECT_EQ(environment(second.ranks(0)).at("MUSTER_GENERATION"), "0");
}

TEST(LaunchPlan, MpiIsToldWhoIsWhere) {
  model::JobSpec job;
  job.command = {"./a"};
  job.placement.hosts = *model::parse_host_list("n1:2,n2:1", "-H");
  job.placement.map_by = model::MapBy::kNode;
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  EXPECT_EQ(plans[0].world(), plans[1].world());
  EXPECT_EQ(plans[1].host(), 1);
  const auto read = proto::world_of_bytes(plans[1].world());
  ASSERT_TRUE(read.has_value());
  const v1::World& world = *read;
  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(world.name(), "muster-abcdefgh-0");
  ASSERT_EQ(world.hosts_size(), 2);
  EXPECT_EQ(world.hosts(0).name(), "n1");
  EXPECT_EQ(std::vector(world.hosts(0).ranks().begin(), world.hosts(0).ranks().end()), (std::vector{0, 2}));
  EXPECT_EQ(std::vector(world.hosts(1).ranks().begin(), world.hosts(1).ranks().end()), (std::vector{1}));
  ASSERT_EQ(world.programs_size(), 1);
  EXPECT_EQ(world.programs(0).ranks(), 3);
  EXPECT_EQ(world.programs(0).cpus_per_rank(), 2) << "rank 0's share of n1";
  job.runtime = model::Runtime::kTorch;
  EXPECT_EQ(planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts[0].world(), "");
}

TEST(LaunchPlan, MpiIsToldTheProgramsOfTheJob) {
  model::JobSpec job;
  job.roles = {{.name = "a", .np = 1, .command = {"./a"}}, {.name = "b", .np = 3, .command = {"./b"}}};
  job.placement.hosts = *model::parse_host_list("n1:2,n2:2", "-H");
  job.pinning.bind_to = model::BindTo::kNone;
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  v1::World world;
  const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  ASSERT_TRUE(world.ParseFromString(plans[0].world()));
  ASSERT_EQ(world.programs_size(), 2);
  EXPECT_EQ(world.programs(0).ranks(), 1);
  EXPECT_EQ(world.programs(1).ranks(), 3);
  EXPECT_EQ(world.programs(1).cpus_per_rank(), 1) << "not bound";
}

TEST(LaunchPlan, CraysProgramsAreServedWhereTheyAre) {
  const auto is_served = [](model::Runtime runtime, const base::Environment& launcher) {
    model::JobSpec job;
    job.command = {"./a"};
    job.runtime = runtime;
    job.placement.hosts = *model::parse_host_list("n1:1", "-H");
    const auto placement = model::place(job.placement);
    const auto plan = planned(plan_launch(job, *placement, {host("n1", {})}, {"abcdefgh"}, "127.0.0.1", launcher));
    v1::World world;
    if (const auto read = proto::world_of_bytes(plan.hosts[0].world())) world = *read;
    return world.pals();
  };
  base::Environment cray;
  cray.set("CRAY_MPICH_DIR", "/opt/cray/pe/mpich");
  EXPECT_TRUE(is_served(model::Runtime::kMpi, {}));
  EXPECT_FALSE(is_served(model::Runtime::kAuto, {}));
  EXPECT_TRUE(is_served(model::Runtime::kAuto, cray));
  EXPECT_FALSE(is_served(model::Runtime::kTorch, cray)) << "which has no MPI at all";
}

TEST(LaunchPlan, EveryTensorFlowWorkerHasAPortOfItsHost) {
  model::JobSpec job;
  job.command = {"./a"};
  job.runtime = model::Runtime::kTensorflow;
  job.placement.hosts = *model::parse_host_list("n1:2,n2:1", "-H");
  const auto placement = model::place(job.placement);
  ASSERT_TRUE(placement.ok());
  std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  facts[0].prepared.set_address("10.0.0.1");
  facts[0].prepared.add_held_ports(7001);
  facts[0].prepared.add_held_ports(7002);
  facts[1].prepared.set_address("10.0.0.2");
  facts[1].prepared.add_held_ports(7003);
  const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  EXPECT_EQ(environment(plans.at(1).ranks(0)).at("TF_CONFIG"),
            R"({"cluster": {"worker": ["10.0.0.1:7001", "10.0.0.1:7002", "10.0.0.2:7003"]}, )"
            R"("task": {"type": "worker", "index": 2}})");
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
  const auto plan = [&] {
    return planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", launcher)).hosts;
  };
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
  const auto plans = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  const auto& command = plans.at(1).ranks(0).command();
  EXPECT_EQ(std::vector<std::string>(command.begin(), command.end()),
            (std::vector<std::string>{"./a", "1", "tcp://10.0.0.1:4242/n2", "{rank}"}));
  EXPECT_EQ(plans[1].limits(0).hard(), 2U);
  job.expand.clear();
  const LaunchPlan plain = planned(plan_launch(job, *placement, facts, {"abcdefgh"}, "10.0.0.1", {}));
  EXPECT_EQ(plain.hosts.at(1).ranks(0).command_size(), 0);
}

// Plans the job's ranks on a host of two sockets, with GPU 0 at the second one.
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
  return planned(plan_launch(job, *model::place(request), {facts}, {"abcdefgh"}, "127.0.0.1", {}));
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
  job.pinning.gpu_bind = model::GpuBind::kOne;
  EXPECT_EQ(visible(plan_with_gpus(job, 2), 1), "GPU-0");
  job.pinning.gpu_bind = model::GpuBind::kNone;
  EXPECT_EQ(visible(plan_with_gpus(job, 3), 1), "-");
  EXPECT_TRUE(plan_with_gpus(job, 3).warnings.empty());
}

TEST(LaunchPlan, AMaskThatLeavesNoGpuIsSaid) {
  model::JobSpec job;
  job.command = {"./a"};
  job.environment.named = {"CUDA_VISIBLE_DEVICES=all"};
  const LaunchPlan plan = plan_with_gpus(job, 1);
  EXPECT_EQ(visible(plan, 0), "-");
  EXPECT_EQ(plan.warnings,
            std::vector<std::string>{"n1: CUDA_VISIBLE_DEVICES is 'all', which leaves none of its 2 GPUs: no rank gets "
                                     "a GPU (--gpu-bind none if the ranks need none)"});
}

// Numbers of this host's GPUs mean other GPUs on other hosts.
TEST(LaunchPlan, MasksOfTheLaunchersShellStayThere) {
  model::JobSpec job;
  job.command = {"./a"};
  base::Environment launcher;
  launcher.set("ROCR_VISIBLE_DEVICES", "1");
  launcher.set("ZE_AFFINITY_MASK", "1");
  auto facts = host("n1", {"10.0.0.1"});
  for (int i = 0; i < 2; ++i) {
    v1::Gpu* gpu = facts.hello.add_gpus();
    gpu->set_vendor(v1::GPU_VENDOR_AMD);
    gpu->set_index(i);
    gpu->set_uuid(fmt::format("GPU-{}", i));
  }
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("n1:1", "-H");
  const auto mask = [&] {
    const auto plan = planned(plan_launch(job, *model::place(request), {facts}, {"abcdefgh"}, "127.0.0.1", launcher));
    return environment(plan.hosts.at(0).ranks(0)).at("ROCR_VISIBLE_DEVICES");
  };
  EXPECT_EQ(mask(), "GPU-0,GPU-1");
  job.environment.named = {"ROCR_VISIBLE_DEVICES"};
  EXPECT_EQ(mask(), "GPU-1");
  job.environment.named.clear();
  facts.local = true;
  EXPECT_EQ(mask(), "GPU-1");
}

TEST(LaunchPlan, WhatEveryRankHasIsTold) {
  model::JobSpec job;
  job.command = {"./a"};
  const LaunchPlan plan = plan_with_gpus(job, 2);
  ASSERT_EQ(plan.bindings.size(), 2u);
  EXPECT_EQ(
      plan.bindings[1],
      (model::BoundRank{.rank = 1, .host = "n1", .local_rank = 1, .cpus = {2, 3}, .gpus = {0}, .devices = {"GPU-0"}}));
}

TEST(LaunchPlan, PlacedRanksHaveWhatWasChosenForThem) {
  model::JobSpec job;
  job.command = {"./a"};
  job.pinning.gpu_bind = model::GpuBind::kOne;
  for (int rank = 0; rank < 3; ++rank) {
    job.places.push_back({.rank = rank, .host = "n1", .cpus = {rank}, .gpus = {fmt::format("GPU-{}", rank % 2)}});
  }
  const LaunchPlan plan = plan_with_gpus(job, 3);  // more ranks than GPUs, so none is assigned
  EXPECT_EQ(visible(plan, 2), "GPU-0");
  EXPECT_EQ(plan.hosts.at(0).ranks(2).cpus(0), 2);
  EXPECT_EQ(environment(plan.hosts.at(0).ranks(2)).at("OMP_NUM_THREADS"), "1");
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(LaunchPlan, WhatIsNotKnownOfGpusIsSaidWhereTheyMatter) {
  model::JobSpec job;
  job.command = {"./a"};
  auto facts = host("n1", {"10.0.0.1"});
  facts.hello.set_gpu_problem("NVIDIA's management library does not start");
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("n1:1", "-H");
  const auto warnings = [&] {
    return planned(plan_launch(job, *model::place(request), {facts}, {"abcdefgh"}, "127.0.0.1", {})).warnings;
  };
  EXPECT_EQ(warnings(), std::vector<std::string>{"n1: NVIDIA's management library does not start; its GPUs are known "
                                                 "from files only (--gpu-bind none if the ranks need none)"});
  job.pinning.gpu_bind = model::GpuBind::kNone;
  EXPECT_TRUE(warnings().empty());
  job.pinning.gpu_bind = model::GpuBind::kOne;
  facts.hello.set_gpu_driver("550.54.15");
  facts.hello.set_gpu_problem("GPU 1 cannot be used: it is lost");
  EXPECT_EQ(warnings(), std::vector<std::string>{"n1: GPU 1 cannot be used: it is lost"});
}

// A site's template uses `tile` for all jobs, also on hosts without GPUs.
TEST(LaunchPlan, TilesOfAHostWithoutAnyAreSaid) {
  model::JobSpec job;
  job.command = {"./a"};
  job.pinning.gpu_bind = model::GpuBind::kTile;
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("n1:2", "-H");
  const auto plan = [&](const HostFacts& facts) {
    return plan_launch(job, *model::place(request), {facts}, {"abcdefgh"}, "127.0.0.1", {});
  };
  auto facts = host("n1", {"10.0.0.1"});
  const LaunchPlan without = planned(plan(facts));
  EXPECT_FALSE(environment(without.hosts.at(0).ranks(1)).contains("ZE_AFFINITY_MASK"));
  EXPECT_EQ(without.warnings, std::vector<std::string>{
                                  "n1: --gpu-bind tile: the kernel shows no Intel GPU, so no rank gets one; describe "
                                  "the GPUs by --gpu-tiles 6x2, or use --gpu-bind none if the ranks need none"});
  job.pinning.gpus_per_rank = 1;
  EXPECT_EQ(plan(facts).status().message(),
            "n1: --gpus-per-rank 1: that host shows no GPU that ranks can use; muster doctor shows what it has");
  job.pinning.gpus_per_rank = 0;
  facts.hello.add_gpus()->set_vendor(v1::GPU_VENDOR_NVIDIA);
  EXPECT_EQ(plan(facts).status().message(),
            "n1: --gpu-bind tile: the kernel shows no Intel GPU; describe the GPUs, as --gpu-tiles 6x2");
}

TEST(LaunchPlan, AHostThatCannotBePinnedSoIsNamed) {
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("n1:1,n2:3", "-H");
  model::JobSpec job;
  job.command = {"./a"};
  job.pinning = {.bind_to = model::BindTo::kDepth, .depth = 2};
  const auto plan = plan_launch(job, *model::place(request), {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})},
                                {"abcdefgh"}, "127.0.0.1", {});
  EXPECT_EQ(plan.status().message(),
            "n2: --bind-to depth: 3 ranks of 2 hardware threads do not fit on 4 cores of 1 socket: only 2 ranks do, "
            "because no rank spans two sockets; use fewer ranks per host, or another --depth or --hyperthreads");
}

TEST(LaunchPlan, TheUsersMaskIsWhatIsDealt) {
  model::JobSpec job;
  job.command = {"./a"};
  job.environment.named = {"CUDA_VISIBLE_DEVICES=0"};
  const LaunchPlan plan = plan_with_gpus(job, 2);
  EXPECT_EQ(visible(plan, 1), "GPU-0");
  const std::string tail =
      " on, where local_rank % device_count() does not (--share-gpu if that is intended, --gpu-bind none if they need "
      "none)";
  EXPECT_EQ(plan.warnings, std::vector<std::string>{
                               "n1: 2 ranks but 1 GPU: some ranks share one, and set_device(local_rank) fails from "
                               "local rank 1" +
                               tail});
  job.environment.named.clear();
  EXPECT_EQ(
      plan_with_gpus(job, 3).warnings,
      std::vector<std::string>{"n1: 3 ranks but 2 GPUs: some ranks share one, and set_device(local_rank) fails from "
                               "local rank 2" +
                               tail});
}

model::JobSpec two_roles() {
  model::JobSpec job;
  job.workdir = "/w";
  job.placement.hosts = *model::parse_host_list("n1:2,n2:1", "-H");
  job.roles = {{.name = "a", .np = 1, .command = {"./a", "{rank}"}, .environment = {"COLOUR=red", "RANK=9"}},
               {.name = "b", .np = 2, .command = {"./b"}, .workdir = "/d"}};
  job.placement.np = 3;
  return job;
}

TEST(LaunchPlan, RolesHaveTheirOwnCommandDirectoryAndVariables) {
  const model::JobSpec job = two_roles();
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  const auto plans = planned(plan_launch(job, *model::place(job), facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  const v1::LaunchRank& first = plans[0].ranks(0);
  EXPECT_EQ(first.command(1), "{rank}");
  EXPECT_EQ(first.workdir(), "");
  EXPECT_EQ(environment(first).at("COLOUR"), "red");
  EXPECT_EQ(environment(first).at("RANK"), "0");  // only Muster sets it
  EXPECT_EQ(environment(first).at("ROLE_NAME"), "a");
  const v1::LaunchRank& last = plans[1].ranks(0);
  EXPECT_EQ(last.command(0), "./b");
  EXPECT_EQ(last.workdir(), "/d");
  EXPECT_EQ(environment(last).count("COLOUR"), 0u);
  EXPECT_EQ(environment(last).at("ROLE_RANK"), "1");
  EXPECT_EQ(environment(last).at("ROLE_WORLD_SIZE"), "2");
  EXPECT_EQ(environment(last).at("WORLD_SIZE"), "3");
}

TEST(LaunchPlan, RolesAreExpandedWhereTheJobIs) {
  model::JobSpec job = two_roles();
  job.expands_roles = true;
  const std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  const auto plans = planned(plan_launch(job, *model::place(job), facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  EXPECT_EQ(plans[0].ranks(0).command(1), "0");
}

TEST(LaunchPlan, ParameterServersGetTheirVariables) {
  model::JobSpec job;
  job.command = {"./train"};
  job.placement.hosts = *model::parse_host_list("n1:2,n2:1", "-H");
  job.roles = model::dmlc_roles({.workers = 1, .servers = 1});
  job.is_dmlc = true;
  std::vector<HostFacts> facts = {host("n1", {"10.0.0.1"}), host("n2", {"10.0.0.2"})};
  facts[0].prepared.set_master_port(4242);
  facts[1].prepared.set_address("10.0.0.2");
  facts[1].prepared.set_interface("eth0");
  const auto plans = planned(plan_launch(job, *model::place(job), facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  const auto worker = environment(plans[1].ranks(0));
  EXPECT_EQ(worker.at("DMLC_ROLE"), "worker");
  EXPECT_EQ(worker.at("DMLC_PS_ROOT_URI"), "10.0.0.1");
  EXPECT_EQ(worker.at("DMLC_PS_ROOT_PORT"), "4242");
  EXPECT_EQ(worker.at("DMLC_NODE_HOST"), "10.0.0.2");
  EXPECT_EQ(plans[1].ranks(0).command_size(), 0);  // empty means the job's command
  EXPECT_EQ(environment(plans[0].ranks(0)).at("DMLC_ROLE"), "scheduler");
  job.network = *base::IpNetwork::parse("10.0.0.0/24");
  const auto chosen = planned(plan_launch(job, *model::place(job), facts, {"abcdefgh"}, "10.0.0.1", {})).hosts;
  EXPECT_EQ(environment(chosen[0].ranks(0)).at("DMLC_NODE_HOST"), "10.0.0.1");
}

// The files of NVIDIA's driver do not show who uses the GPUs.
TEST(GpuUsers, AreToldByTheLibraryAndByOthersFiles) {
  v1::Hello hello;
  EXPECT_FALSE(reports_gpu_users(hello));
  hello.add_gpus()->set_vendor(v1::GPU_VENDOR_NVIDIA);
  EXPECT_FALSE(reports_gpu_users(hello));
  hello.set_gpu_driver("550.54.15");
  EXPECT_TRUE(reports_gpu_users(hello));
  for (const v1::GpuVendor vendor : {v1::GPU_VENDOR_AMD, v1::GPU_VENDOR_INTEL}) {
    v1::Hello other;
    other.add_gpus()->set_vendor(vendor);
    EXPECT_TRUE(reports_gpu_users(other));
  }
}

// The agent queries a library again that failed at the agent's start.
TEST(GpuUsers, AreWaitedForAlsoWhereNobodyHasToldOfThem) {
  v1::Hello hello;
  EXPECT_FALSE(may_wait_for_gpus(hello));
  hello.set_gpu_problem("NVIDIA's management library has not answered within 5 s");
  EXPECT_TRUE(may_wait_for_gpus(hello));
  v1::Hello other;
  other.add_gpus()->set_vendor(v1::GPU_VENDOR_NVIDIA);
  EXPECT_TRUE(may_wait_for_gpus(other));
}

}  // namespace
}  // namespace muster::launcherd::launch_plan_test
