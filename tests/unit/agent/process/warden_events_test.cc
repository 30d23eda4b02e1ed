#include "agent/process/warden_events.h"

#include <gtest/gtest.h>

namespace muster::agent::warden_events_test {
namespace {

TEST(ContainLevelTest, NamesAreParsed) {
  EXPECT_EQ(*parse_contain_level("auto"), ContainLevel::kAuto);
  EXPECT_EQ(*parse_contain_level(""), ContainLevel::kAuto);
  EXPECT_EQ(*parse_contain_level("cgroup"), ContainLevel::kCgroup);
  EXPECT_EQ(*parse_contain_level("pidns"), ContainLevel::kPidns);
  EXPECT_EQ(*parse_contain_level("subreaper"), ContainLevel::kSubreaper);
  EXPECT_EQ(parse_contain_level("docker").status().code(), base::Code::kInvalidArgument);
}

TEST(ContainmentTest, NameTellsWhatIsInForce) {
  EXPECT_EQ((Containment{true, true, ""}.name()), "cgroup+pidns");
  EXPECT_EQ((Containment{true, false, ""}.name()), "cgroup");
  EXPECT_EQ((Containment{false, true, ""}.name()), "pidns");
  EXPECT_EQ((Containment{}.name()), "subreaper");
}

}  // namespace
}  // namespace muster::agent::warden_events_test
