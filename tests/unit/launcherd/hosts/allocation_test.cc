#include "launcherd/hosts/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/placement.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::allocation_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string names(const std::vector<model::HostSpec>& hosts) {
  std::string text;
  for (const model::HostSpec& host : hosts) {
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : " ", host.name, host.slots ? fmt::format(":{}", *host.slots) : "");
  }
  return text;
}

TEST(SlurmHosts, CompressedForms) {
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"n1", "", "n1"},
      {"n[01-03,07],gpu1", "", "n01 n02 n03 n07 gpu1"},
      {"n[1-3]", "2(x2),1", "n1 n1 n2 n2 n3"},
      {"n[1-2]", "1(x2)", "n1 n2"},
      {"n1,n2", "3,1", "n1 n1 n1 n2"},
      {"rack[0-1]n[8-9]", "1(x4)", "rack0n8 rack0n9 rack1n8 rack1n9"},
  };
  for (const auto& [list, tasks, expected] : table) {
    const auto hosts = slurm_hosts(list, tasks);
    ASSERT_TRUE(hosts.ok()) << hosts.status();
    EXPECT_EQ(names(*hosts), expected) << list << " " << tasks;
  }
}

TEST(SlurmHosts, MistakesNameTheVariable) {
  const std::vector<std::tuple<std::string, std::string, std::string>> table = {
      {"n[1-", "", "SLURM_JOB_NODELIST: "},
      {"n[1-2]", "1", "SLURM_TASKS_PER_NODE: '1' counts 1 nodes, SLURM_JOB_NODELIST names 2"},
      {"n[1-2]", "1(x3)", "SLURM_TASKS_PER_NODE: '1(x3)' counts more nodes than SLURM_JOB_NODELIST, which names 2"},
      {"n[1-2]", "1,1,1", "counts more nodes"},
      {"n1", "0", "is not a list of numbers"},
      {"n1", "1(x0)", "is not a list of numbers"},
      {"n1", "1(x", "is not a list of numbers"},
      {"n1", "1(x1", "is not a list of numbers"},
      {"n1", "(x1)", "is not a list of numbers"},
      {"n1", "1(1)", "is not a list of numbers"},
      {"n1", ",", "is not a list of numbers"},
      {"n1", "1(x99999999999)", "is not a list of numbers"},
      {"n[1-2]", "60000(x2)", "more than 100000 tasks"},
  };
  for (const auto& [list, tasks, expected] : table) {
    const auto hosts = slurm_hosts(list, tasks);
    ASSERT_FALSE(hosts.ok()) << list << " " << tasks;
    EXPECT_THAT(hosts.status().message(), HasSubstr(expected));
    EXPECT_THAT(hosts.status().message(), StartsWith("SLURM_"));
  }
}

TEST(CobaltHosts, NodeNumbers) {
  EXPECT_EQ(names(*cobalt_hosts("3835")), "nid03835");
  EXPECT_EQ(names(*cobalt_hosts("1-3,7")), "nid00001 nid00002 nid00003 nid00007");
  for (const char* bad : {"", "3-1", "1-", "-1", "1,,2", "100000", "1-2-3", "x"}) {
    const auto hosts = cobalt_hosts(bad);
    ASSERT_FALSE(hosts.ok()) << bad;
    EXPECT_THAT(hosts.status().message(), HasSubstr("COBALT_PARTNAME"));
  }
}

base::Result<std::string> no_scheduler(const std::vector<std::string>& argv) {
  return base::error(base::Code::kUnavailable, "{} was asked", base::join(argv, " "));
}

class FindAllocation : public ::testing::Test {
 protected:
  std::string write(const std::string& content) const { return directory_.write("nodes", content); }

  // Returns "Slurm (SLURM_JOB_NODELIST): n1 n2", "" outside an allocation, or the message of an error.
  std::string find() const {
    const auto found = find_allocation(environment_, no_scheduler);
    if (!found.ok()) return found.status().message();
    return *found ? fmt::format("{} ({}): {}", (*found)->scheduler, (*found)->source, names((*found)->hosts)) : "";
  }

  testing_support::TempDir directory_;
  base::Environment environment_;
};

TEST_F(FindAllocation, NoneIsNoError) {
  EXPECT_EQ(find(), "");
  environment_.set("PBS_NODEFILE", "");
  environment_.set("SLURM_JOB_NODELIST", "");
  environment_.set("SLURM_TASKS_PER_NODE", "2");
  environment_.set("COBALT_PARTNAME", "MIR-00000-73FF7-16384");  // a block of a Blue Gene names no hosts
  EXPECT_EQ(find(), "");
}

TEST_F(FindAllocation, SlurmByItsLists) {
  environment_.set("SLURM_JOB_NODELIST", "n[1-2]");
  environment_.set("SLURM_TASKS_PER_NODE", "2,1");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n1 n2");
}

TEST_F(FindAllocation, SlurmsGpusAreSlotsUnlessTasksWereAskedFor) {
  environment_.set("SLURM_JOB_NODELIST", "n[1-2]");
  environment_.set("SLURM_TASKS_PER_NODE", "1(x2)");
  const auto is_open = [&] { return (*find_allocation(environment_, no_scheduler))->has_uncounted; };
  EXPECT_TRUE(is_open());
  // The GPUs of this node do not determine those of the other node.
  environment_.set("SLURM_GPUS_ON_NODE", "4");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n2");
  EXPECT_TRUE(is_open());
  environment_.set("SLURMD_NODENAME", "n2");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n2 n2 n2 n2");
  EXPECT_TRUE(is_open());
  environment_.set("SLURM_JOB_NODELIST", "n2");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n2 n2 n2 n2");
  EXPECT_FALSE(is_open());
  environment_.set("SLURM_JOB_NODELIST", "n[1-2]");
  environment_.set("SLURM_GPUS_PER_NODE", "a100:2");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n1 n2 n2");
  EXPECT_FALSE(is_open());
  environment_.set("SLURM_GPUS_PER_NODE", "a100:2,v100:1");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n1 n1 n2 n2 n2");
  environment_.set("SLURM_NTASKS", "2");
  EXPECT_EQ(find(), "Slurm (SLURM_JOB_NODELIST): n1 n2");
  EXPECT_FALSE(is_open());
}

TEST_F(FindAllocation, WhoseHostsNobodyHasCounted) {
  const auto is_open = [&] { return (*find_allocation(environment_, no_scheduler))->has_uncounted; };
  environment_.set("PBS_NODEFILE", write("n1\nn2\n"));
  EXPECT_TRUE(is_open());
  environment_.set("PBS_NODEFILE", write("n1\nn1\nn2\n"));
  EXPECT_FALSE(is_open());
  environment_.unset("PBS_NODEFILE");
  environment_.set("COBALT_NODEFILE", write("n1\nn2\n"));
  EXPECT_TRUE(is_open());
  environment_.unset("COBALT_NODEFILE");
  environment_.set("LSB_DJOB_HOSTFILE", write("n1\nn2\n"));  // here LSF counts the slots
  EXPECT_FALSE(is_open());
  environment_.set("SLURM_JOB_NODELIST", "n[1-2]");
  environment_.set("SLURM_TASKS_PER_NODE", "2,1");
  EXPECT_FALSE(is_open());
}

TEST_F(FindAllocation, PbsByItsFile) {
  const std::string path = write("n1.site\nn1.site\nn2.site\nn2.site\n");
  environment_.set("PBS_NODEFILE", path);
  EXPECT_EQ(find(), fmt::format("PBS (PBS_NODEFILE {}): n1.site n1.site n2.site n2.site", path));
  const auto found = find_allocation(environment_, no_scheduler);
  ASSERT_TRUE(found.ok() && *found);
  // Repetitions of a name are its slots. -N overrides them.
  EXPECT_EQ(model::place({.hosts = (*found)->hosts})->size, 4);
  const auto placed = model::place({.hosts = (*found)->hosts, .ranks_per_node = 3});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->size, 6);
}

TEST_F(FindAllocation, CobaltByItsFileOrItsNumbers) {
  environment_.set("COBALT_PARTNAME", "4-5");
  EXPECT_EQ(find(), "Cobalt (COBALT_PARTNAME): nid00004 nid00005");
  const std::string path = write("thetagpu01\nthetagpu02\n");
  environment_.set("COBALT_NODEFILE", path);
  EXPECT_EQ(find(), fmt::format("Cobalt (COBALT_NODEFILE {}): thetagpu01 thetagpu02", path));
}

TEST_F(FindAllocation, LsfByItsFileOrItsList) {
  environment_.set("LSB_MCPU_HOSTS", "n1 2 n2 1 ");
  EXPECT_EQ(find(), "LSF (LSB_MCPU_HOSTS): n1 n1 n2");
  // The batch script runs on its own node.
  environment_.set("LSB_MCPU_HOSTS", "batch2 1 a01n02 2 a01n03 2");
  EXPECT_EQ(find(), "LSF (LSB_MCPU_HOSTS): a01n02 a01n02 a01n03 a01n03");
  const std::string path = write("batch5\na01n02\na01n02\n");
  environment_.set("LSB_DJOB_HOSTFILE", path);
  EXPECT_EQ(find(), fmt::format("LSF (LSB_DJOB_HOSTFILE {}): a01n02 a01n02", path));
}

TEST(LsfHosts, MistakesNameTheVariable) {
  for (const char* bad : {"", "n1", "n1 0", "n1 x", "1 n1", "n1 2 n2", "n[1-2] 3", "n1:2 3", "-n1 2", "n1 99999999"}) {
    const auto hosts = lsf_hosts(bad);
    ASSERT_FALSE(hosts.ok()) << bad;
    EXPECT_THAT(hosts.status().message(), HasSubstr("LSB_MCPU_HOSTS")) << bad;
  }
}

TEST_F(FindAllocation, FluxIsAsked) {
  environment_.set("FLUX_URI", "local:///run/flux/local");
  EXPECT_EQ(find(), "FLUX_URI (-H names other hosts): flux getattr hostlist was asked");
  const auto found = find_allocation(environment_, [](const std::vector<std::string>& argv) {
    return base::Result<std::string>(argv.back() == "hostlist" ? "fluke[6-8]\n" : "");
  });
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_EQ((*found)->scheduler, "Flux");
  EXPECT_EQ(names((*found)->hosts), "fluke6 fluke7 fluke8");
  EXPECT_TRUE((*found)->has_uncounted);
}

TEST_F(FindAllocation, ANodeFileMustBeThereAndRight) {
  environment_.set("PBS_NODEFILE", directory_ / "none");
  EXPECT_THAT(find(), StartsWith("PBS_NODEFILE (-H names other hosts): the hostfile cannot be read: open "));
  const std::string path = write("n1\n-n2\n");
  environment_.set("PBS_NODEFILE", path);
  EXPECT_THAT(find(), HasSubstr(path + ":2:1: '-n2' is not a host name"));
}

}  // namespace
}  // namespace muster::launcherd::allocation_test
