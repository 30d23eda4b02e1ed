#include "cli/hosts/job_hosts.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::job_hosts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChooseHosts : public ::testing::Test {
 protected:
  ChooseHosts() {
    directory_.write("hosts", "f1 slots=2\nf2\n");
    environment_.set("SLURM_JOB_NODELIST", "s[1-2]");
  }

  // The names of the chosen hosts and the line about them, or the error.
  std::string choose(const Words& words) const {
    ParsedHvdrun parsed = parse(words);
    const auto source = find_hosts(parsed.options.request, environment_, directory_.path());
    if (!source.ok()) return source.status().message();
    std::string text;
    for (const model::HostSpec& host : parsed.options.request.job.placement.hosts) text += host.name + " ";
    return text + source->note;
  }

  testing_support::TempDir directory_;
  base::Environment environment_;
};

TEST_F(ChooseHosts, WhatTheUserNamesWinsOverTheAllocation) {
  EXPECT_EQ(choose({"-H", "a,b", "p"}), "a b ");
  EXPECT_EQ(choose({"--hostfile", "hosts", "p"}), "f1 f2 ");
  EXPECT_EQ(choose({"p"}), "s1 s2 hosts from the Slurm allocation (SLURM_JOB_NODELIST); -H names others");
}

TEST_F(ChooseHosts, UsesThisHostOutsideOfAllocations) {
  environment_.unset("SLURM_JOB_NODELIST");
  EXPECT_EQ(choose({"-np", "4", "p"}), "");
}

TEST_F(ChooseHosts, RunsADiscoveryScriptOnce) {
  const std::string asked = directory_.write("asked", "");
  const std::string script = "echo 1 >> " + asked + "; echo n1; echo n2:3";
  EXPECT_EQ(choose({"--host-discovery-script", script, "--slots-per-host", "2", "p"}), "n1 n2 hosts from " + script);
  EXPECT_EQ(std::filesystem::file_size(asked), 2U);
  EXPECT_THAT(choose({"--host-discovery-script", "exit 4", "p"}), HasSubstr("exit 4 ended with exit code 4"));
}

TEST_F(ChooseHosts, LeavesUncountedHostsToLauncherdWhenSshStartsTheAgents) {
  // The slots of the hosts; 0: to be asked.
  const auto slots = [&](const Words& words) {
    ParsedHvdrun parsed = parse(words);
    const auto source = find_hosts(parsed.options.request, environment_, directory_.path());
    EXPECT_TRUE(source.ok()) << source.status();
    std::vector<model::HostSpec>& hosts = parsed.options.request.job.placement.hosts;
    set_default_slots(parsed.options.reach, *source, hosts);
    std::vector<int> counted;
    for (const model::HostSpec& host : hosts) counted.push_back(host.slots.value_or(0));
    return counted;
  };
  EXPECT_THAT(slots({"-H", "a,b:3", "p"}), ElementsAre(0, 3));
  EXPECT_THAT(slots({"-H", "a,b:3", "--bootstrap", "srun", "p"}), ElementsAre(1, 3));
  EXPECT_THAT(slots({"--host-discovery-script", "echo n1; echo n2:3", "p"}), ElementsAre(1, 3));
  environment_.set("LSB_DJOB_HOSTFILE", directory_.write("lsf", "n1\nn2\n"));
  environment_.unset("SLURM_JOB_NODELIST");
  EXPECT_THAT(slots({"p"}), ElementsAre(1, 1)) << "LSF has counted";
}

TEST_F(ChooseHosts, ElasticLimitsHoldAtTheStart) {
  const auto size = [&](Words words) {
    words.insert(words.begin(), {"--host-discovery-script", "echo n1:2; echo n2:3"});
    words.emplace_back("p");
    ParsedHvdrun parsed = parse(words);
    const auto placed = place_job(parsed.options, {}, "/", {});
    return placed.ok() ? fmt::format("{}", placed->placement.size) : placed.status().message();
  };
  EXPECT_EQ(size({}), "5");
  EXPECT_EQ(size({"-np", "3", "--min-np", "2", "--max-np", "4"}), "4") << "-np slots are enough to start";
  EXPECT_EQ(size({"-np", "3", "--min-np", "2"}), "5");
  EXPECT_EQ(size({"-np", "3", "--min-np", "2", "--on-failure", "shrink"}), "3") << "all ranks start again";
  EXPECT_EQ(size({"-np", "7", "--min-np", "2", "--oversubscribe"}), "7");
  EXPECT_EQ(size({"--min-np", "2", "--max-np", "4"}), "4");
  EXPECT_EQ(size({"--max-np", "8"}), "5");
  EXPECT_EQ(size({"--min-np", "6"}), "--min-np needs 6 ranks, but the job has 5: name more hosts or slots");
}

TEST(JobHosts, ALiveJobWithoutHostsHasTheRequestedRanks) {
  ParsedHvdrun parsed = parse({"-np", "4", "--min-np", "2", "p"});
  const auto placed = place_job(parsed.options, {}, "/", {});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->placement.size, 4);
}

TEST(JobHosts, AHostWithRanksIsNoSpare) {
  const auto problem = [](Words words) {
    words.emplace_back("p");
    ParsedHvdrun parsed = parse(words);
    return place_job(parsed.options, {}, "/", {}).status().message();
  };
  EXPECT_EQ(problem({"-H", "n1:1,n2:1", "--spares", "n3,N2"}), "--spares: N2 has ranks already; name another host");
  EXPECT_EQ(problem({"-H", "n1:1,n2:1", "-np", "1", "--spares", "n2"}), "") << "n2 has no rank";
}

// n1 has two GPUs, n2 four, n3 none, n4 cannot be asked. `asked`: whose shapes were asked for.
std::string slots_of(const Words& words, std::string* asked = nullptr, const base::Environment& environment = {}) {
  const ProbeShapes look = [&](const std::vector<model::HostSpec>& hosts) {
    std::vector<base::Result<model::NodeShape>> shapes;
    for (const model::HostSpec& host : hosts) {
      if (asked != nullptr) *asked += host.name + " ";
      model::NodeShape node;
      node.gpus.resize(host.name == "n1" ? 2 : host.name == "n2" ? 4 : 0);
      for (std::size_t i = 0; i < node.gpus.size(); ++i) node.gpus[i].index = static_cast<int>(i);
      if (host.name == "n4") {
        shapes.emplace_back(base::error(base::Code::kUnavailable, "n4: no answer"));
      } else {
        shapes.emplace_back(std::move(node));
      }
    }
    return shapes;
  };
  ParsedHvdrun parsed = parse(words);
  const auto placed = place_job(parsed.options, environment, "/", look);
  if (!placed.ok()) return "error";
  std::string text;
  for (const model::PlacedHost& host : placed->placement.hosts) {
    text += fmt::format("{}:{} ", host.host.name, host.ranks.size());
  }
  return text;
}

TEST(GpuSlots, AreCountedForHostsWithoutSlots) {
  EXPECT_EQ(slots_of({"-H", "n1,n2", "p"}), "n1:2 n2:4 ");
  EXPECT_EQ(slots_of({"-H", "n1,n3,n4", "p"}), "n1:2 n3:1 n4:1 ");
  EXPECT_EQ(slots_of({"-H", "n1,n2", "-np", "5", "p"}), "n1:2 n2:3 ");
  EXPECT_EQ(slots_of({"-H", "n1:1,n2", "p"}), "n1:1 n2:4 ");  // explicit slots win
  EXPECT_EQ(slots_of({"-H", "n1,n2", "--gpus-per-rank", "2", "p"}), "n1:1 n2:2 ");
  EXPECT_EQ(slots_of({"-H", "n1,n2", "-x", "CUDA_VISIBLE_DEVICES=1", "p"}), "n1:1 n2:1 ");
  EXPECT_EQ(slots_of({"-H", "n1,n2", "-np", "9", "p"}), "error");  // 6 slots
  // As they will be bound.
  EXPECT_EQ(slots_of({"-H", "n2", "--gpu-order", "0,1", "--gpu-bind", "one", "p"}), "n2:2 ");
  EXPECT_EQ(slots_of({"-H", "n3", "--gpu-tiles", "6x2", "--gpu-bind", "tile", "p"}), "n3:12 ");
  EXPECT_EQ(slots_of({"-H", "n1", "--gpu-bind", "one", "-x", "CUDA_VISIBLE_DEVICES=all", "p"}), "n1:1 ");  // told later
}

TEST(GpuSlots, AreCountedForAllocationsThatCountNoTasks) {
  base::Environment environment;
  environment.set("SLURM_JOB_NODELIST", "n[1-3]");
  environment.set("SLURM_TASKS_PER_NODE", "1(x3)");
  EXPECT_EQ(slots_of({"p"}, nullptr, environment), "n1:2 n2:4 n3:1 ");
  EXPECT_EQ(slots_of({"-N", "1", "p"}, nullptr, environment), "n1:1 n2:1 n3:1 ");
  environment.set("SLURM_GPUS_ON_NODE", "2");
  environment.set("SLURMD_NODENAME", "n1");
  std::string asked;
  EXPECT_EQ(slots_of({"p"}, &asked, environment), "n1:2 n2:4 n3:1 ");
  EXPECT_EQ(asked, "n2 n3 ");
  EXPECT_EQ(slots_of({"-N", "1", "p"}, nullptr, environment), "n1:1 n2:1 n3:1 ");
  environment.set("SLURM_NTASKS", "3");
  EXPECT_EQ(slots_of({"p"}, nullptr, environment), "n1:1 n2:1 n3:1 ");
}

TEST(GpuSlots, NameAHostThatCannotBeProbed) {
  const ProbeShapes look = [](const std::vector<model::HostSpec>& hosts) {
    std::vector<base::Result<model::NodeShape>> shapes(hosts.size(), model::NodeShape());
    shapes.back() = base::error(base::Code::kUnavailable, "n4: no route to it");
    return shapes;
  };
  constexpr const char* kSaid = "n4: no route to it; n4 counts as one slot, because its GPUs are unknown";
  ParsedHvdrun parsed = parse({"-H", "n1,n4", "p"});
  ASSERT_TRUE(place_job(parsed.options, {}, "/", look).ok());
  EXPECT_EQ(parsed.options.output.notes, std::vector<std::string>{kSaid});
  parsed = parse({"-H", "n1,n4", "-np", "3", "p"});
  const auto failed = place_job(parsed.options, {}, "/", look);
  EXPECT_EQ(failed.status().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(failed.status().message().find(kSaid), 0u) << failed.status();
}

TEST(GpuSlots, ProbeNoHostWhenTheNumberIsGiven) {
  const auto asked_by = [](const Words& words) {
    std::string asked;
    slots_of(words, &asked);
    return asked;
  };
  EXPECT_EQ(asked_by({"-H", "n1,n2:1", "p"}), "n1 ");
  EXPECT_EQ(asked_by({"-H", "n1,n2", "-np", "3", "p"}), "n1 n2 ");
  EXPECT_EQ(asked_by({"-H", "n1,n2", "-np", "2", "p"}), "");
  EXPECT_EQ(asked_by({"-H", "n1,n2", "-N", "2", "p"}), "");
  EXPECT_EQ(asked_by({"-H", "n1,n1", "-np", "4", "p"}), "");  // counted by being named
  EXPECT_EQ(asked_by({"-H", "n1:2", "p"}), "");
  EXPECT_EQ(asked_by({"-H", "n1,n2", "-np", "4", "--oversubscribe", "p"}), "");
  EXPECT_EQ(asked_by({"-np", "4", "p"}), "");
}

TEST(PlacementExitCode, SeparatesMistakesOfTheUserFromFailures) {
  EXPECT_EQ(placement_exit_code(base::error(base::Code::kInvalidArgument, "x")), 2);
  EXPECT_EQ(placement_exit_code(base::error(base::Code::kUnavailable, "x")), 125);
}

TEST_F(ChooseHosts, MistakesAreNamed) {
  EXPECT_THAT(choose({"--hostfile", "none", "p"}), HasSubstr(directory_ / "none"));
  environment_.set("SLURM_JOB_NODELIST", "s[1-");
  EXPECT_THAT(choose({"p"}), HasSubstr("SLURM_JOB_NODELIST: 's[1-'"));
}

}  // namespace
}  // namespace muster::cli::job_hosts_test
