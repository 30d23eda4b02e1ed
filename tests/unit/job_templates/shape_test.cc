#include "job_templates/shape.h"

#include <gmock/gmock.h>

#include "tests/unit/job_templates/given.h"

namespace muster::job_templates::shape_test {
namespace {

using ::testing::ElementsAre;

TEST(NodeShape, CpusAreNumberedAsLinuxDoesIt) {
  const auto theta = node_shape(built_in("theta"));
  ASSERT_TRUE(theta.ok());
  ASSERT_EQ(theta->cores.size(), 64U);
  EXPECT_THAT(theta->cores[1].cpus, ElementsAre(1, 65, 129, 193));
  const auto aurora = node_shape(built_in("aurora"));
  ASSERT_TRUE(aurora.ok());
  EXPECT_EQ(aurora->cores[51].socket, 0);
  EXPECT_EQ(aurora->cores[52].socket, 1);
  EXPECT_THAT(aurora->cores[52].cpus, ElementsAre(52, 156));
}

TEST(NodeShape, GpusLieWhereTheTemplateSays) {
  const auto polaris = node_shape(built_in("polaris"));
  ASSERT_TRUE(polaris.ok());
  ASSERT_EQ(polaris->gpus.size(), 4U);
  EXPECT_EQ(polaris->gpus[0].numa, 3);
  EXPECT_EQ(polaris->gpus[3].numa, 0);
  const auto thetagpu = node_shape(built_in("thetagpu"));
  ASSERT_TRUE(thetagpu.ok());
  EXPECT_EQ(thetagpu->gpus[0].numa, 3);
  EXPECT_EQ(thetagpu->gpus[4].numa, 7);
  EXPECT_EQ(thetagpu->cores.back().numa, 7);
}

TEST(NodeShape, NotEveryTemplateHasOne) {
  EXPECT_EQ(node_shape(built_in("ssh-lab")).status().message(), "the template ssh-lab does not describe a host");
}

TEST(MadeUpNames, FollowTheSite) {
  EXPECT_THAT(made_up_names(built_in("theta").node, 2), ElementsAre("nid00001", "nid00002"));
  EXPECT_THAT(made_up_names(built_in("thetagpu").node, 1), ElementsAre("thetagpu01"));
  EXPECT_THAT(made_up_names(built_in("polaris").node, 2), ElementsAre("x3006c0s1b0n0", "x3006c0s2b0n0"));
  EXPECT_THAT(made_up_names({}, 2), ElementsAre("host1", "host2"));
}

}  // namespace
}  // namespace muster::job_templates::shape_test
