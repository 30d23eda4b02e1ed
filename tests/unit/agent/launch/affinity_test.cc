#include "agent/launch/affinity.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace muster::agent::affinity_test {
namespace {

TEST(AffinityTest, MaskHasTheBits) {
  const auto mask = cpu_mask({0, 3, 65, 3});
  ASSERT_TRUE(mask.ok()) << mask.status();
  EXPECT_EQ(*mask, (std::vector<unsigned long>{0b1001, 0b10}));
  EXPECT_TRUE(cpu_mask({})->empty());
}

TEST(AffinityTest, RefusesWhatIsNoCpu) {
  EXPECT_EQ(cpu_mask({-1}).status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(cpu_mask({65536}).status().code(), base::Code::kInvalidArgument);
}

TEST(AffinityTest, ExplanationNamesWhatIsAllowed) {
  const std::string text = explain_affinity_failure({4000}, EINVAL);
  EXPECT_EQ(text.rfind("cannot bind to CPUs 4000: Invalid argument; this host allows 0", 0), 0U) << text;
}

}  // namespace
}  // namespace muster::agent::affinity_test
