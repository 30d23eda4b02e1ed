#include "agent/job/formed_world.h"

#include <gtest/gtest.h>

namespace muster::agent::formed_world_test {
namespace {

constexpr int kSize = 8;

std::optional<FormedGroup> group(const ProcessFacts& facts) {
  return group_of(facts, kSize, false);
}

TEST(LauncherOf, KnowsLaunchersByProgramScriptAndModule) {
  EXPECT_EQ(launcher_of({"torchrun", "--nnodes=1", "train.py"}), "torchrun");
  EXPECT_EQ(launcher_of({"/usr/bin/python3", "/opt/bin/torchrun", "train.py"}), "torchrun");
  EXPECT_EQ(launcher_of({"python3.11", "-m", "torch.distributed.run", "train.py"}), "torchrun");
  EXPECT_EQ(launcher_of({"python3", "-u", "-m", "torch.distributed.launch", "train.py"}), "torchrun");
  EXPECT_EQ(launcher_of({"python3", "/venv/bin/accelerate", "launch", "train.py"}), "accelerate");
  EXPECT_EQ(launcher_of({"/usr/bin/mpirun.openmpi", "-np", "1", "a.out"}), "mpirun");
  EXPECT_EQ(launcher_of({"sh", "-c", "torchrun train.py"}), "");
  EXPECT_EQ(launcher_of({"python3", "train.py", "torchrun"}), "");
  EXPECT_EQ(launcher_of({"python3", "train.py", "--a", "--b", "-m", "torch.distributed.run"}), "");
  EXPECT_EQ(launcher_of({}), "");
}

TEST(GroupOf, ReadsTheWorldOfLibmusterFromItsThread) {
  const auto found = group({.variables = {{"MUSTER_SESSION_DIR", "/tmp/x"}}, .threads = {"python3", "muster of 4"}});
  EXPECT_EQ(found, (FormedGroup{.size = 4, .source = "libmuster", .detail = ""}));
  EXPECT_EQ(group({.threads = {"muster of 1"}})->detail, "no MUSTER_SESSION_DIR");
  EXPECT_EQ(group({.variables = {{"MUSTER_RENDEZVOUS", "file:///x"}}, .threads = {"muster of 2"}})->detail,
            "MUSTER_RENDEZVOUS");
  EXPECT_FALSE(group({.threads = {"muster of x", "muster of 0", "muster of "}}));
}

TEST(GroupOf, CountsTheTorchrunsThatShareAWorld) {
  const ProcessFacts worker{.variables = {{"GROUP_WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "none"}},
                            .launcher = "torchrun"};
  EXPECT_EQ(group(worker), (FormedGroup{.size = 1, .source = "torchrun", .detail = "torchrun"}));
}

// Muster sets the same variables as torchrun.
TEST(GroupOf, TorchrunsVariablesWithoutTorchrunAreNoEvidence) {
  EXPECT_FALSE(group({.variables = {{"GROUP_WORLD_SIZE", "1"}, {"TORCHELASTIC_RUN_ID", "none"}}}));
}

TEST(GroupOf, AnMpirunInARankIsAWorldOfOneRankIfItIsAsLargeAsTheJob) {
  const auto of = [](const char* size) {
    return group({.variables = {{"OMPI_COMM_WORLD_SIZE", size}}, .launcher = "mpirun"});
  };
  EXPECT_EQ(of("8")->size, 1);
  EXPECT_EQ(of("1")->size, 1);
  EXPECT_FALSE(of("2"));  // independent programs of two processes each
  EXPECT_FALSE(of("many"));
}

TEST(GroupOf, OpenMpiWithoutItsLauncherIsAlone) {
  EXPECT_EQ(group({.has_begun_open_mpi = true}), (FormedGroup{.size = 1, .source = "MPI", .detail = "no PMIX_RANK"}));
  EXPECT_FALSE(group_of({.has_begun_open_mpi = true}, kSize, true));
  EXPECT_FALSE(group({.variables = {{"PMIX_RANK", "0"}}, .has_begun_open_mpi = true}));
}

// Muster sets OMPI_COMM_WORLD_SIZE, which Open MPI does not read.
TEST(GroupOf, OpenMpiWithMustersOtherVariablesIsAloneToo) {
  EXPECT_TRUE(group({.variables = {{"OMPI_COMM_WORLD_SIZE", "8"}}, .has_begun_open_mpi = true}));
}

TEST(GroupOf, MpichWithoutPmiIsAlone) {
  EXPECT_EQ(group({.variables = {{"PMI_SIZE", "8"}}, .has_begun_mpich = true}),
            (FormedGroup{.size = 1, .source = "MPI", .detail = "no PMI_FD"}));
  EXPECT_FALSE(group_of({.has_begun_mpich = true}, kSize, true));
  for (const char* const name : {"PMI_FD", "PMI_PORT"}) {
    EXPECT_FALSE(group({.variables = {{name, "0"}}, .has_begun_mpich = true})) << name;
  }
}

TEST(GroupOf, ProgramsWithoutEvidenceHaveNoGroup) {
  EXPECT_FALSE(group({}));
  EXPECT_FALSE(group(
      {.variables = {{"HOROVOD_SIZE", "1"}, {"PMI_SIZE", "1"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, .threads = {"sh"}}));
}

TEST(MapsBegunOpenMpi, NeedsTheComponentsThatMpiInitLoads) {
  const std::string loaded = "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4\n";
  EXPECT_FALSE(maps_begun_open_mpi(loaded));
  EXPECT_TRUE(maps_begun_open_mpi(loaded + "7f02-7f03 r-xp 0 08:01 2 /usr/lib/openmpi/mca_pml_ob1.so\n"));
  EXPECT_TRUE(maps_begun_open_mpi(loaded + "7f02-7f03 rw-s 0 00:18 2 /dev/shm/sm_segment.n1.1000.91640000.0\n"));
  EXPECT_FALSE(maps_begun_open_mpi(""));
}

TEST(MapsBegunMpich, NeedsWhatMpiInitOpens) {
  const std::string loaded =
      "7f00-7f01 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2\n"
      "7f01-7f02 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/libuct.so.0.0.0\n";
  EXPECT_FALSE(maps_begun_mpich(loaded));
  EXPECT_TRUE(
      maps_begun_mpich(loaded + "7f02-7f03 r-xp 0 08:01 2 /usr/lib/x86_64-linux-gnu/ucx/libuct_cma.so.0.0.0\n"));
  const std::string newest = "7f00-7f01 r-xp 0 08:01 1 /opt/mpich/lib/libmpi.so.12.5.0\n";
  EXPECT_FALSE(maps_begun_mpich(newest));
  EXPECT_TRUE(maps_begun_mpich(newest + "7f02-7f03 rw-s 0 00:18 2 /dev/shm/mpich_shm_358b_0\n"));
  EXPECT_FALSE(maps_begun_open_mpi(newest + "7f02-7f03 r-xp 0 08:01 2 /opt/mpich/lib/ucx/libuct_cma.so.0\n"));
  EXPECT_FALSE(maps_begun_mpich(""));
}

TEST(WrongGroup, OneProcessInTheRightWorldIsEnough) {
  const FormedGroup one{.size = 1, .source = "libmuster", .detail = ""};
  const FormedGroup all{.size = kSize, .source = "libmuster", .detail = ""};
  EXPECT_EQ(wrong_group({one}, kSize), one);
  EXPECT_FALSE(wrong_group({one, all}, kSize));
  EXPECT_FALSE(wrong_group({}, kSize));
}

}  // namespace
}  // namespace muster::agent::formed_world_test
