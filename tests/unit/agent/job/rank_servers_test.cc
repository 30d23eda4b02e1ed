#include "agent/job/rank_servers.h"

#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "agent/job/session_stores.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_servers_test {
namespace {

class RankServersTest : public ::testing::Test {
 protected:
  RankServersTest() {
    v1::Prepare prepare;
    prepare.set_master_address("127.0.0.1");
    prepare.set_serve_horovod(true);
    prepare.set_session_secret(std::string(32, 's'));
    EXPECT_EQ(stores_.prepare(prepare).error(), "");
    EXPECT_TRUE(stores_.serve_ranks({}).ok());
  }

  bool has_socket() const { return ::access((dir_ / kSessionSocketName).c_str(), F_OK) == 0; }
  static v1::Launch launch_of(int ranks) {
    v1::Launch launch;
    for (int i = 0; i < ranks; ++i) launch.add_ranks()->set_rank(i);
    return launch;
  }
  static std::vector<SpawnRequest> requests_of(int ranks) {
    std::vector<SpawnRequest> requests(static_cast<std::size_t>(ranks));
    for (int i = 0; i < ranks; ++i) requests[static_cast<std::size_t>(i)].rank = i;
    return requests;
  }
  v1::RankExited judged(int rank) {
    v1::RankExited exited;
    exited.set_rank(rank);
    servers_.judge(exited);
    return exited;
  }

  const testing_support::TempDir dir_;
  base::Loop loop_;
  SessionStores stores_{loop_,
                        {},
                        {.ask_launcher = [](const v1::OwnerQuestion&) {},
                         .on_problem = [](const base::Status&) {},
                         .on_notice = [](const std::string&) {}}};
  std::vector<std::string> notices_;
  RankServers servers_{loop_,
                       {.send = [](const v1::AgentMessage&) {},
                        .on_notice = [this](const std::string& text) { notices_.push_back(text); },
                        .on_problem = [](const base::Status&) {},
                        .pid_of = [](int) { return 0; },
                        .kill = [](int) {},
                        .on_lost = [](const std::string&) {}}};
  const std::string no_secret_;
};

TEST_F(RankServersTest, OpensTheSocketOnlyWithASecret) {
  servers_.open_socket(launch_of(1), {dir_.path(), no_secret_, stores_.keys(), false});
  EXPECT_FALSE(has_socket());
  servers_.open_socket(launch_of(1), {dir_.path(), stores_.secret(), nullptr, false});
  EXPECT_FALSE(has_socket());
  servers_.open_socket(launch_of(1), {dir_.path(), stores_.secret(), stores_.keys(), false});
  EXPECT_TRUE(has_socket());
  EXPECT_TRUE(notices_.empty());
}

TEST_F(RankServersTest, ReportsASocketThatCannotBeOpened) {
  const std::string missing = dir_ / "missing";
  servers_.open_socket(launch_of(1), {missing, stores_.secret(), stores_.keys(), false});
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_TRUE(notices_[0].starts_with("programs that use libmuster will not find each other: ")) << notices_[0];
}

TEST_F(RankServersTest, AddsNoVariablesWithoutAWorld) {
  std::vector<SpawnRequest> requests = requests_of(2);
  servers_.open(launch_of(2), {dir_.path(), stores_.secret(), stores_.keys(), false}, requests);
  for (const SpawnRequest& request : requests) EXPECT_TRUE(request.env.empty());
  EXPECT_EQ(servers_.helper(), 0);
  EXPECT_FALSE(judged(0).without_finalize()) << "no MPI program";
}

TEST_F(RankServersTest, AddsPmiVariablesForAWorld) {
  v1::World world;
  world.set_size(2);
  world.set_name("world-1");
  v1::WorldHost& host = *world.add_hosts();
  host.set_name("n1");
  host.add_ranks(0);
  host.add_ranks(1);
  v1::Launch launch = launch_of(2);
  launch.set_world(world.SerializeAsString());
  std::vector<SpawnRequest> requests = requests_of(2);
  servers_.open(launch, {dir_.path(), stores_.secret(), stores_.keys(), false}, requests);
  for (const SpawnRequest& request : requests) {
    EXPECT_TRUE(request.wants_pmi);
    EXPECT_FALSE(request.env.empty());
  }
  EXPECT_EQ(dir_.read("mpi-world"), "world-1\n");
}

TEST_F(RankServersTest, NamesTheVariablesOfAllServers) {
  const std::vector<std::string> names = servers_.variable_names();
  for (const std::string& name : pmi_variable_names()) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (const std::string& name : pals_variable_names()) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

}  // namespace
}  // namespace muster::agent::rank_servers_test
