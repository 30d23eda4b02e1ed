#include "launcherd/run/world_audit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::world_audit_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::RankWorld report(int size, const std::string& source = "libmuster", const std::string& detail = "") {
  v1::RankWorld world;
  world.set_size(size);
  world.set_source(source);
  world.set_detail(detail);
  return world;
}

TEST(WorldAudit, WarnsWhenAllRanksAreAlone) {
  WorldAudit audit(3);
  EXPECT_FALSE(audit.add(0, report(1, "libmuster", "no MUSTER_SESSION_DIR")));
  EXPECT_FALSE(audit.add(1, report(1, "libmuster", "no MUSTER_SESSION_DIR")));
  const auto found = audit.add(2, report(1, "libmuster", "no MUSTER_SESSION_DIR"));
  ASSERT_TRUE(found);
  EXPECT_THAT(
      model::describe(*found),
      HasSubstr("3 ranks were started, but they have formed 3 worlds of 1 rank: the ranks' programs do not have "
                "the variables"));
  EXPECT_FALSE(audit.add(2, report(1)));  // once
}

TEST(WorldAudit, NamesTheVariableThatRanksLack) {
  for (const char* const name : {"MUSTER_SESSION_DIR", "PMIX_RANK", "PMI_FD"}) {
    WorldAudit audit(2);
    EXPECT_FALSE(audit.add(0, report(1, "MPI", fmt::format("no {}", name))));
    const auto found = audit.add(1, report(1, "MPI", fmt::format("no {}", name)));
    ASSERT_TRUE(found);
    EXPECT_THAT(found->reason, HasSubstr(fmt::format("find each other ({}). Does the command remove", name)));
  }
}

TEST(WorldAudit, WarnsOfTwoHalves) {
  WorldAudit audit(4);
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(audit.add(rank, report(2, "libmuster", "MUSTER_RENDEZVOUS")));
  const auto found = audit.add(3, report(2, "libmuster", "MUSTER_RENDEZVOUS"));
  ASSERT_TRUE(found);
  ASSERT_EQ(found->formed.size(), 1U);
  EXPECT_THAT(found->formed[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(model::describe(*found), HasSubstr("2 worlds of 2 ranks: MUSTER_RENDEZVOUS is set"));
}

TEST(WorldAudit, NamesTheLauncherInsideTheRanks) {
  WorldAudit audit(2);
  audit.add(0, report(1, "torchrun", "torchrun"));
  EXPECT_THAT(audit.add(1, report(1, "torchrun", "torchrun"))->reason, HasSubstr("each rank has started torchrun"));
}

TEST(WorldAudit, KeepsSilentUnlessAllRanksAreWrong) {
  WorldAudit audit(3);
  EXPECT_FALSE(audit.add(0, report(1)));
  EXPECT_FALSE(audit.add(1, report(1)));
  EXPECT_FALSE(audit.add(2, report(3)));
}

TEST(WorldAudit, KeepsSilentAboutGroupsThatCannotBe) {
  WorldAudit audit(3);
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(audit.add(rank, report(2)));
  WorldAudit larger(2);
  for (int rank = 0; rank < 2; ++rank) EXPECT_FALSE(larger.add(rank, report(4)));
}

TEST(WorldAudit, AGenerationForgetsReports) {
  WorldAudit audit(2);
  EXPECT_FALSE(audit.add(0, report(1)));
  audit.begin(2);
  EXPECT_FALSE(audit.add(1, report(1)));
  EXPECT_TRUE(audit.add(0, report(1)));
}

TEST(WorldAudit, IgnoresWhatNoRankCanReport) {
  WorldAudit audit(2);
  EXPECT_FALSE(audit.add(-1, report(1)));
  EXPECT_FALSE(audit.add(2, report(1)));
  EXPECT_FALSE(audit.add(0, report(0)));
  EXPECT_FALSE(audit.add(1, report(1)));
  WorldAudit single(1);
  EXPECT_FALSE(single.add(0, report(1)));
}

}  // namespace
}  // namespace muster::launcherd::world_audit_test
