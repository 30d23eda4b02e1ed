// How this host serves its ranks by PMI and PMIx, and what it reports if it cannot.
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/job/rank_pals.h"
#include "agent/job/rank_pmi.h"
#include "agent/job/rank_pmix.h"
#include "agent/pmi/apinfo.h"
#include "base/file.h"
#include "base/net.h"
#include "rendezvous/horovod_store.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_mpi_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

v1::Launch launch_of(int ranks) {
  v1::World world;
  world.set_size(ranks);
  world.set_name("muster-test");
  v1::WorldHost& host = *world.add_hosts();
  host.set_name("h0");
  v1::Launch launch;
  for (int rank = 0; rank < ranks; ++rank) {
    host.add_ranks(rank);
    launch.add_ranks()->set_rank(rank);
  }
  launch.set_world(world.SerializeAsString());
  return launch;
}

// Sets the soft limit of open files until the end of the scope.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t soft) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit lower{soft, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~OpenFiles() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

 private:
  rlimit before_{};
};

class RankMpiTest : public ::testing::Test {
 protected:
  SpawnRequest planned_pmi(const v1::Launch& launch) {
    RankPmi pmi(loop_, ends_, [this](const base::Status& problem) { problems_.push_back(problem.message()); });
    pmi.open(launch, &keys_);
    SpawnRequest request;
    for (const v1::LaunchRank& rank : launch.ranks()) pmi.plan(rank, request);
    return request;
  }
  RankPmix make_pmix() {
    return RankPmix(loop_, ends_,
                    {.on_problem = [this](const std::string& text) { problems_.push_back(text); },
                     .pid_of = [](int) { return 0; },
                     .on_spawn = {},
                     .on_world_added = {},
                     .on_lost = [](const std::string&) {}});
  }

  base::Loop loop_;
  rendezvous::HorovodStore store_{rendezvous::HorovodPlan{}};
  rendezvous::HorovodStoreKeys keys_{store_};
  MpiEnds ends_{loop_, [](int) {}};
  std::vector<std::string> problems_;
};

TEST_F(RankMpiTest, ADescriptorAboveTheLimitIsNotAskedFor) {
  {
    const OpenFiles limit(kPmiDescriptor);
    const SpawnRequest request = planned_pmi(launch_of(2));
    EXPECT_FALSE(request.wants_pmi);
    EXPECT_THAT(request.env, IsEmpty());
    EXPECT_THAT(problems_, ElementsAre(HasSubstr("(ulimit -n) is 99"))) << "once for all ranks";
  }
  const OpenFiles limit(kPmiDescriptor + 1);
  EXPECT_TRUE(planned_pmi(launch_of(2)).wants_pmi);
  EXPECT_EQ(problems_.size(), 1u);
}

// MPICH 4.3 and later ends if it finds both PMI-1 and PMIx and no variable chooses one of them.
TEST_F(RankMpiTest, MpichIsToldWhichProtocolToTake) {
  const v1::Launch launch = launch_of(1);
  EXPECT_THAT(planned_pmi(launch).env, Contains("MPIR_CVAR_PMI_VERSION=1"));
  RankPmi pmi(loop_, ends_, [this](const base::Status& problem) { problems_.push_back(problem.message()); });
  pmi.open(launch, &keys_);
  SpawnRequest request;
  request.env = {"MPIR_CVAR_PMI_VERSION=x"};
  pmi.plan(launch.ranks(0), request);
  EXPECT_THAT(request.env, Contains("MPIR_CVAR_PMI_VERSION=x")) << "the user's choice stays";
  EXPECT_THAT(request.env, ::testing::Not(Contains("MPIR_CVAR_PMI_VERSION=1")));
}

TEST_F(RankMpiTest, WhatTheUserHasSetForARoleIsNotTheLaunchers) {
  const auto set = [](const char* name, v1::LaunchRank& rank) { rank.add_environment()->set_name(name); };
  v1::LaunchRank users;
  set("UCX_NET_DEVICES", users);
  set("MUSTER_JOB_ID", users);
  EXPECT_FALSE(is_of_launcher(users, "UCX_NET_DEVICES"));
  v1::LaunchRank ours;
  set("A", ours);
  set("MUSTER_JOB_ID", ours);
  set("UCX_NET_DEVICES", ours);
  EXPECT_TRUE(is_of_launcher(ours, "UCX_NET_DEVICES"));
  EXPECT_FALSE(is_of_launcher({}, "UCX_NET_DEVICES"));
}

TEST_F(RankMpiTest, AHostThatCannotServePmixLetsNoRankBeAWorldOfItsOwn) {
  v1::Launch launch = launch_of(2);
  launch.set_host(7);
  RankPmix pmix = make_pmix();
  pmix.open(launch, &keys_, "/nowhere/abcdefgh-0", false);
  EXPECT_THAT(problems_, ElementsAre(HasSubstr("programs of Open MPI will not start")));
  SpawnRequest first;
  first.env = {"OMPI_MCA_schizo=ompi"};
  SpawnRequest second;
  second.rank = 1;
  pmix.plan(first);
  pmix.plan(second);
  EXPECT_THAT(first.env, ElementsAre("OMPI_MCA_schizo=ompi"));
  EXPECT_THAT(second.env, ElementsAre("OMPI_MCA_schizo=ompi"));
  EXPECT_THAT(pmix.variable_names(), Contains("OMPI_MCA_schizo")) << "of all ranks, not of the first one";
}

// The file apinfo of Cray's launcher, as RankPals has written it.
class RankPalsTest : public ::testing::Test {
 protected:
  static v1::Launch launch_on(int hosts, int host) {
    v1::World world;
    world.set_size(2 * hosts);
    world.set_name("muster-test");
    world.set_pals(true);
    world.add_programs()->set_ranks(2 * hosts);
    for (int i = 0; i < hosts; ++i) {
      v1::WorldHost& each = *world.add_hosts();
      each.set_name("h" + std::to_string(i));
      each.add_ranks(2 * i);
      each.add_ranks(2 * i + 1);
    }
    v1::Launch launch;
    launch.set_host(host);
    launch.set_world(world.SerializeAsString());
    return launch;
  }
  base::Environment planned(const v1::Launch& launch, int rank, const std::string& secret = std::string(32, 's')) {
    RankPals pals([this](const base::Status& problem) { problems_.push_back(problem.message()); });
    pals.open(launch, directory_.path(), secret);
    SpawnRequest request;
    request.rank = rank;
    request.env = {"PALS_NODEID=7", "A=b"};
    pals.plan(request);
    base::Environment environment;
    for (const std::string& entry : request.env) {
      environment.set(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
    }
    return environment;
  }

  testing_support::TempDir directory_;
  std::vector<std::string> problems_;
};

TEST_F(RankPalsTest, ARankFindsTheFileAndItsPlace) {
  const base::Environment rank = planned(launch_on(2, 1), 3);
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_EQ(rank.get("PALS_RANKID"), "3");
  EXPECT_EQ(rank.get("PALS_LOCAL_RANKID"), "1");
  EXPECT_EQ(rank.get("PALS_NODEID"), "1") << "whatever was there before";
  EXPECT_EQ(rank.get("PMI_LOCAL_SIZE"), "2");
  EXPECT_EQ(rank.get("PMI_UNIVERSE_SIZE"), "4");
  EXPECT_EQ(rank.get("PALS_APID"), "muster-test");
  EXPECT_EQ(rank.get("A"), "b");
  const std::string path(rank.get("PALS_APINFO").value_or(""));
  EXPECT_EQ(path, std::string(rank.get("PALS_SPOOL_DIR").value_or("")) + "/apinfo");
  const auto file = base::read_file(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file, *apinfo_file({{"h0", {0, 1}}, {"h1", {2, 3}}}, {{4, 0}}));
}

TEST_F(RankPalsTest, TheHostsAgreeOnPortsAndSecretAndStartsDoNot) {
  const base::Environment first = planned(launch_on(2, 0), 0);
  const base::Environment second = planned(launch_on(2, 1), 2);
  EXPECT_THAT(std::string(first.get("PMI_CONTROL_PORT").value_or("")),
              MatchesRegex("11[0-9][0-9][0-9],11[0-9][0-9][0-9]"));
  EXPECT_EQ(first.get("PMI_CONTROL_PORT"), second.get("PMI_CONTROL_PORT"));
  EXPECT_EQ(first.get("PMI_SHARED_SECRET"), second.get("PMI_SHARED_SECRET"));
  const base::Environment again = planned(launch_on(2, 0), 0, std::string(32, 't'));
  EXPECT_NE(first.get("PMI_CONTROL_PORT"), again.get("PMI_CONTROL_PORT"));
  EXPECT_NE(first.get("PMI_SHARED_SECRET"), again.get("PMI_SHARED_SECRET"));
  const base::Environment alone = planned(launch_on(1, 0), 0);
  EXPECT_TRUE(alone.get("PALS_APINFO"));
  EXPECT_FALSE(alone.get("PMI_CONTROL_PORT") || alone.get("PMI_SHARED_SECRET")) << "one host needs no port";
}

TEST_F(RankPalsTest, APortThatIsTakenIsNamed) {
  const base::Environment free = planned(launch_on(2, 0), 0);
  const int port = std::stoi(std::string(free.get("PMI_CONTROL_PORT").value_or("0")));
  const auto taken = base::listen_on(*base::IpAddress::parse("0.0.0.0"), static_cast<std::uint16_t>(port), 1);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_FALSE(planned(launch_on(2, 0), 0).get("PALS_APINFO"));
  EXPECT_THAT(problems_, ElementsAre(AllOf(HasSubstr("programs of Cray MPICH will not find each other"),
                                           HasSubstr(std::to_string(port)), HasSubstr("start the job again"))));
}

TEST_F(RankPalsTest, NothingWhereTheLauncherDoesNotWantIt) {
  EXPECT_FALSE(planned(launch_of(2), 0).get("PALS_APINFO"));
  EXPECT_FALSE(planned({}, 0).get("PALS_APINFO"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(RankMpiTest, AJobWithoutAWorldIsLeftAlone) {
  RankPmix pmix = make_pmix();
  pmix.open({}, &keys_, "/nowhere/abcdefgh-0", false);
  SpawnRequest request;
  pmix.plan(request);
  EXPECT_THAT(request.env, IsEmpty());
  EXPECT_THAT(problems_, IsEmpty());
}

}  // namespace
}  // namespace muster::agent::rank_mpi_test
