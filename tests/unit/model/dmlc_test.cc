#include "model/dmlc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "model/job_placement.h"

namespace muster::model::dmlc_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string shown(const base::Result<std::vector<RankPlace>>& places) {
  if (!places.ok()) return places.status().message();
  std::vector<std::string> names;
  for (const RankPlace& place : *places) names.push_back(place.host);
  return base::join(names, " ");
}

std::string dealt(int workers, int servers, std::string_view hosts, std::string_view server_hosts = "",
                  bool oversubscribe = false) {
  return shown(dmlc_places(
      {.workers = workers, .servers = servers}, parse_host_list(hosts, "-H").value(),
      server_hosts.empty() ? std::vector<HostSpec>() : parse_host_list(server_hosts, "-SH").value(), oversubscribe));
}

// The scheduler on the first host, then as launch.py: hosts[i % n], servers first.
TEST(DmlcPlaces, AsLaunchPyDealsThem) {
  EXPECT_EQ(dealt(2, 2, "d1,d2"), "d1 d1 d2 d1 d2");
  EXPECT_EQ(dealt(2, 1, "d1,d2"), "d1 d1 d2 d1");
  EXPECT_EQ(dealt(3, 3, "d1"), "d1 d1 d1 d1 d1 d1 d1");
  EXPECT_EQ(dealt(2, 2, "d1,d2", "s1,s2"), "d1 s1 s2 d1 d2");
}

TEST(DmlcPlaces, SlotsAreForWorkers) {
  EXPECT_EQ(dealt(4, 1, "d1:1,d2:3"), "d1 d1 d2 d1 d2 d2");
  EXPECT_THAT(dealt(5, 1, "d1:1,d2:3"), HasSubstr("5 workers are requested, but the hosts together have 4"));
  EXPECT_EQ(dealt(5, 1, "d1:1,d2:3", "", true), "d1 d1 d2 d1 d2 d2 d1");
  EXPECT_EQ(dealt(3, 1, "d1:2,d1:1"), "d1 d1 d1 d1 d1");
}

TEST(DmlcRoles, TheSchedulerIsRankZeroAndServesAsTheServersDo) {
  const auto roles = dmlc_roles({.workers = 3, .servers = 2});
  EXPECT_EQ(count_ranks(roles), 6);
  EXPECT_EQ(role_of(roles, 0).role->name, "scheduler");
  EXPECT_EQ(role_of(roles, 2).role->name, "server");
  EXPECT_EQ(role_of(roles, 3).role->name, "worker");
  EXPECT_THAT(service_ranks(roles), ElementsAre(0, 1, 2));
}

RankEnvInput second_server() {
  RankEnvInput input;
  input.role = "server";
  input.role_rank = 1;
  input.role_size = 2;
  input.master_addr = "10.0.0.1";
  input.master_port = 9091;
  input.interface = "eth0";
  input.attempt = 4;
  return input;
}

TEST(DmlcVariables, Exact) {
  const auto roles = dmlc_roles({.workers = 3, .servers = 2});
  EXPECT_THAT(
      dmlc_variables(roles, second_server(), "10.0.0.2", {}),
      ElementsAre(Pair("DMLC_ROLE", "server"), Pair("DMLC_PS_ROOT_URI", "10.0.0.1"), Pair("DMLC_PS_ROOT_PORT", "9091"),
                  Pair("DMLC_NUM_WORKER", "3"), Pair("DMLC_NUM_SERVER", "2"), Pair("DMLC_TASK_ID", "1"),
                  Pair("DMLC_NUM_ATTEMPT", "4"), Pair("DMLC_NODE_HOST", "10.0.0.2"), Pair("DMLC_INTERFACE", "eth0")));
}

TEST(DmlcVariables, TheUsersInterfaceStays) {
  base::Environment user;
  user.set("DMLC_INTERFACE", "ib0");
  for (const auto& [name, value] : dmlc_variables(dmlc_roles({}), second_server(), "", user)) {
    EXPECT_NE(name, "DMLC_INTERFACE");
    EXPECT_NE(name, "DMLC_NODE_HOST");
  }
}

}  // namespace
}  // namespace muster::model::dmlc_test
