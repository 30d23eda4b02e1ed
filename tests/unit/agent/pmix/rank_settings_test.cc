#include "agent/pmix/rank_settings.h"

#include <gtest/gtest.h>

namespace muster::agent::pmix::rank_settings_test {
namespace {

RankSettingsInput input() {
  return {.nspace = "muster-abcdefgh-0",
          .server = "muster-abcdefgh-0",
          .rank = 3,
          .host = 1,
          .host_name = "n2",
          .port = 4711,
          .directory = "/tmp/s/pmix",
          .shared_memory = "/dev/shm/muster-abcdefgh-1",
          .is_crowded = false,
          .has_rdma = false};
}

base::Environment settings(const RankSettingsInput& of, const base::Environment& user_set = {}) {
  base::Environment all;
  for (const auto& [name, value] : rank_settings(of, user_set)) {
    EXPECT_FALSE(all.get(name)) << name << " twice";
    all.set(name, value);
  }
  return all;
}

TEST(RankSettings, LeadToTheServer) {
  const base::Environment all = settings(input());
  EXPECT_EQ(all.get("PMIX_NAMESPACE"), "muster-abcdefgh-0");
  EXPECT_EQ(all.get("PMIX_RANK"), "3");
  for (const char* name :
       {"PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4", "PMIX_SERVER_URI41"}) {
    EXPECT_EQ(all.get(name), "muster-abcdefgh-0-server.1;tcp4://127.0.0.1:4711") << name;
  }
  EXPECT_EQ(all.get("PMIX_HOSTNAME"), "n2");
  EXPECT_EQ(all.get("OMPI_MCA_schizo"), "ompi");
  EXPECT_EQ(all.get("OMPI_MCA_btl_vader_backing_directory"), "/dev/shm/muster-abcdefgh-1");
  EXPECT_EQ(all.get("OMPI_MCA_btl_sm_backing_directory"), "/dev/shm/muster-abcdefgh-1");
}

TEST(RankSettings, WithoutAServerMpiInitFails) {
  base::Environment environment;
  environment.set("PMIX_SERVER_URI41", "of an outer launcher");
  environment.set("OMPI_MCA_btl", "tcp,self");
  set_without_server(environment);
  EXPECT_EQ(environment.get("OMPI_MCA_schizo"), "ompi");
  EXPECT_EQ(environment.get("OMPI_MCA_btl"), "tcp,self");
  EXPECT_FALSE(environment.get("PMIX_SERVER_URI41"));
}

TEST(RankSettings, WhoWaitsGivesWayOnlyWhereProcessorsAreShort) {
  EXPECT_FALSE(settings(input()).get("OMPI_MCA_mpi_yield_when_idle"));
  RankSettingsInput crowded = input();
  crowded.is_crowded = true;
  EXPECT_EQ(settings(crowded).get("OMPI_MCA_mpi_yield_when_idle"), "1");
}

TEST(RankSettings, WindowsGoWithoutUcxWhereNothingButEthernetIs) {
  EXPECT_EQ(settings(input()).get("OMPI_MCA_osc"), "^ucx");
  RankSettingsInput fast = input();
  fast.has_rdma = true;
  EXPECT_FALSE(settings(fast).get("OMPI_MCA_osc"));
  base::Environment user;
  user.set("OMPI_MCA_osc", "rdma");
  EXPECT_NE(settings(input(), user).get("OMPI_MCA_osc"), "^ucx");
}

TEST(RankSettings, WithoutSharedMemoryOpenMpiChooses) {
  RankSettingsInput none = input();
  none.shared_memory = "";
  EXPECT_FALSE(settings(none).get("OMPI_MCA_btl_vader_backing_directory"));
}

TEST(RankSettings, AUsersOwnSettingsStay) {
  base::Environment user;
  user.set("OMPI_MCA_btl_vader_backing_directory", "/scratch");
  user.set("OMPI_MCA_hwloc_base_binding_policy", "core");
  const base::Environment all = settings(input(), user);
  EXPECT_FALSE(all.get("OMPI_MCA_btl_vader_backing_directory"));
  EXPECT_FALSE(all.get("OMPI_MCA_hwloc_base_binding_policy"));
  EXPECT_TRUE(all.get("OMPI_MCA_osc_sm_backing_directory"));
}

TEST(RankSettings, WhatAnotherLauncherSaidIsInTheWay) {
  for (const char* name : {"PMIX_RANK", "PMIX_SERVER_URI41", "PMIX_GDS_MODULE", "PMIX_HOSTNAME", "PMIX_VERSION",
                           "OMPI_MCA_orte_ess_num_procs", "OMPI_MCA_orte_local_daemon_uri", "OMPI_MCA_ess",
                           "OMPI_MCA_ess_base_jobid", "OMPI_MCA_schizo", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir"}) {
    EXPECT_TRUE(is_in_the_way(name)) << name;
  }
  for (const char* name : {"OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_pml",
                           "OMPI_MCA_coll_tuned_priority", "PMIX_MCA_ptl_base_verbose", "SLURM_JOB_ID", "PATH"}) {
    EXPECT_FALSE(is_in_the_way(name)) << name;
  }
}

}  // namespace
}  // namespace muster::agent::pmix::rank_settings_test
