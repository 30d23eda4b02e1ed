#include "model/job_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"

namespace muster::model::job_placement_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<HostSpec> hosts(std::string_view list) {
  return list.empty() ? std::vector<HostSpec>() : parse_host_list(list, "-H").value();
}

Role role(const std::string& name, int np, std::string_view on = "") {
  return {.name = name, .np = np, .command = {"./" + name}, .hosts = hosts(on)};
}

JobSpec job(std::string_view list, std::vector<Role> roles) {
  JobSpec job;
  job.placement.hosts = hosts(list);
  job.placement.np = count_ranks(roles);
  job.roles = std::move(roles);
  return job;
}

// "a b b": the host of each rank.
std::string shown(const base::Result<Placement>& placement) {
  if (!placement.ok()) return placement.status().message();
  std::vector<std::string> names;
  for (const RankPlace& place : places_of(*placement)) names.push_back(place.host);
  return base::join(names, " ");
}

TEST(PlaceRoles, OneAfterTheOtherOntoTheSlotsThatAreLeft) {
  const auto placement = place(job("n1:2,n2:3", {role("a", 1), role("b", 4)}));
  EXPECT_EQ(shown(placement), "n1 n1 n2 n2 n2");
  EXPECT_THAT(placement->roles, ElementsAre(RoleRanks{"a", 0, 1}, RoleRanks{"b", 1, 4}));
  EXPECT_EQ(placement->role(0), "a");
  EXPECT_EQ(placement->role(4), "b");
  EXPECT_EQ(placement->role(5), "");
  EXPECT_EQ(placement->rank(4).local_rank, 2);
  EXPECT_EQ(placement->rank(4).local_size, 3);
}

TEST(PlaceRoles, OwnHostsMakeTheJobsWhereItHasNone) {
  EXPECT_EQ(shown(place(job("", {role("a", 1, "n3"), role("b", 2, "n1,n2")}))), "n3 n1 n2");
  // The host of rank 0 comes first.
  EXPECT_EQ(place(job("", {role("a", 1, "n3"), role("b", 2, "n1,n2")}))->hosts[0].host.name, "n3");
  EXPECT_EQ(shown(place(job("", {role("a", 2, "n1:2"), role("b", 2, "n1:1,n2:1")}))), "n1 n1 n1 n2");
}

TEST(PlaceRoles, OwnHostsAreAmongTheJobs) {
  EXPECT_EQ(shown(place(job("n1:2,n2:2", {role("a", 2, "n2"), role("b", 2)}))), "n2 n2 n1 n1");
  EXPECT_EQ(shown(place(job("n1:4,n2:4", {role("a", 2, "n1:1,n2:1"), role("b", 1, "n1")}))), "n1 n2 n1");
  EXPECT_EQ(shown(place(job("n1:2", {role("a", 1, "n9")}))), "role a: n9 is not one of the job's hosts");
}

TEST(PlaceRoles, NoHostsAreThisOne) {
  EXPECT_EQ(shown(place(job("", {role("a", 2), role("b", 1)}))), "localhost localhost localhost");
}

TEST(PlaceRoles, TooFewSlots) {
  EXPECT_THAT(shown(place(job("n1:2,n2:1", {role("a", 2), role("b", 2)}))),
              HasSubstr("role b: not enough slots: 2 ranks are requested, but the roles before leave 1"));
  JobSpec crowded = job("n1:2,n2:1", {role("a", 2), role("b", 3)});
  crowded.placement.oversubscribe = true;
  EXPECT_EQ(shown(place(crowded)), "n1 n1 n1 n2 n2");
  for (HostSpec& host : crowded.placement.hosts) host.max_slots = *host.slots;
  EXPECT_THAT(shown(place(crowded)), HasSubstr("not enough slots"));
}

TEST(PlaceRoles, RoundTheHosts) {
  JobSpec cyclic = job("n1:2,n2:2", {role("a", 2), role("b", 2)});
  cyclic.placement.map_by = MapBy::kNode;
  EXPECT_EQ(shown(place(cyclic)), "n1 n2 n1 n2");
}

TEST(PlaceJob, PlacesGoBeforeAllElse) {
  JobSpec told = job("n1:1,n2:1", {role("a", 3)});
  told.places = {{.rank = 0, .host = "n2"}, {.rank = 1, .host = "n2"}, {.rank = 2, .host = "n1"}};
  EXPECT_EQ(shown(place(told)), "n2 n2 n1");
  told.places[2].host = "n9";
  EXPECT_EQ(shown(place(told)), "n9 is not one of the job's hosts");
}

TEST(PlaceJob, WithoutRolesAsEver) {
  const auto placement = place(job("n1:1,n2:1", {}));
  EXPECT_EQ(shown(placement), "n1 n2");
  EXPECT_THAT(placement->roles, IsEmpty());
}

TEST(RenameHost, EverywhereInTheJob) {
  JobSpec told = job("n1:1,x:1", {role("a", 1, "x")});
  told.places = {{.rank = 0, .host = "x"}};
  rename_host("x", "n1", told);
  EXPECT_EQ(told.placement.hosts[1].name, "n1");
  EXPECT_EQ(told.roles[0].hosts[0].name, "n1");
  EXPECT_EQ(told.places[0].host, "n1");
}

TEST(AllCommands, WithColonsBetween) {
  EXPECT_THAT(all_commands(job("", {role("a", 1), role("b", 1)})), ElementsAre("./a", ":", "./b"));
}

TEST(CheckRoles, Names) {
  EXPECT_TRUE(check_roles({role("a-1.x_", 1)}).ok());
  EXPECT_EQ(check_roles({role("a", 1), role("a", 1)}).message(), "two roles are named a");
  EXPECT_EQ(check_roles({role("a", 0)}).message(), "role a has no ranks");
  EXPECT_THAT(check_roles({role("-a", 1)}).message(), HasSubstr("'-a' cannot name a role"));
  EXPECT_THAT(check_roles({role("a b", 1)}).message(), HasSubstr("cannot name"));
  EXPECT_THAT(check_roles({role("a", kMaxRanks), role("b", 1)}).message(), HasSubstr("more than 1000000 ranks"));
}

TEST(RoleOfRank, WithinItsRole) {
  const std::vector<Role> roles = {role("a", 1), role("b", 2)};
  EXPECT_EQ(role_of(roles, 2).role->name, "b");
  EXPECT_EQ(role_of(roles, 2).rank, 1);
  EXPECT_EQ(role_of(roles, 3).role, nullptr);
}

TEST(ProgramOf, ByTheSizesOfThoseBefore) {
  EXPECT_EQ(program_of({1, 2}, 0), 0);
  EXPECT_EQ(program_of({1, 2}, 1), 1);
  EXPECT_EQ(program_of({1, 2}, 2), 1);
  EXPECT_EQ(program_of({1, 2}, 3), 0) << "of none";
  EXPECT_EQ(program_of({}, 5), 0);
}

TEST(ServiceRanks, NoneIfAllAre) {
  std::vector<Role> roles = {role("a", 2), role("b", 1)};
  roles[0].is_service = true;
  EXPECT_THAT(service_ranks(roles), ElementsAre(0, 1));
  roles[1].is_service = true;
  EXPECT_THAT(service_ranks(roles), IsEmpty());
}

}  // namespace
}  // namespace muster::model::job_placement_test
