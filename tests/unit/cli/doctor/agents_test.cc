#include "cli/doctor/agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::agents_test {
namespace {

using ::testing::HasSubstr;

ParsedAgents parse(const std::vector<std::string>& words) {
  base::Environment environment;
  environment.set("HOME", "/nonexistent");
  return parse_agents(words, environment, {.build_id = "b", .system_config = "/nonexistent/c"});
}

TEST(AgentsVerb, Words) {
  EXPECT_FALSE(parse({}).prune);
  EXPECT_TRUE(parse({"--json"}).json);
  const ParsedAgents prune = parse({"prune", "-H", "n1,n2", "--unused-for", "2h", "--json"});
  ASSERT_FALSE(prune.exit_code) << prune.text;
  EXPECT_TRUE(prune.prune);
  EXPECT_TRUE(prune.json);
  EXPECT_EQ(prune.unused_for, std::chrono::hours(2));
  EXPECT_EQ(prune.options.request.job.placement.hosts.size(), 2U);
  EXPECT_EQ(parse({"prune"}).unused_for, std::chrono::hours(24));
  EXPECT_TRUE(parse({"--json", "prune"}).prune);
  EXPECT_THAT(parse({"prun"}).text, HasSubstr("'prun' is not prune; hosts are named by -H or --hostfile"));
  EXPECT_EQ(parse({"prune", "prune"}).exit_code, 2);
  EXPECT_THAT(parse({"--unused-for", "1h"}).text, HasSubstr("--unused-for belongs to prune"));
  EXPECT_THAT(parse({"prune", "--unused-for", "x"}).text, HasSubstr("--unused-for: 'x' is not a time"));
  EXPECT_EQ(parse({"prune", "--unused-for", "x"}).exit_code, 2);
}

}  // namespace
}  // namespace muster::cli::agents_test
