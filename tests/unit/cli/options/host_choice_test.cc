#include "cli/options/host_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::cli::host_choice_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<model::HostSpec> hosts(const std::string& list) {
  return *model::parse_host_list(list, "-H");
}

std::string names(const std::vector<model::HostSpec>& list) {
  std::string text;
  for (const model::HostSpec& host : list) text += (text.empty() ? "" : " ") + host.name;
  return text;
}

std::string picked(const std::string& numbers, const std::string& list) {
  const auto parsed = parse_host_numbers(numbers, "--nodes");
  if (!parsed.ok()) return parsed.status().message();
  const auto chosen = pick_hosts(*parsed, hosts(list));
  return chosen.ok() ? names(*chosen) : chosen.status().message();
}

TEST(HostNumbers, PickInTheListsOrder) {
  EXPECT_EQ(picked("0-1", "a,b,c"), "a b");
  EXPECT_EQ(picked("2,0", "a,b,c"), "a c");
  EXPECT_EQ(picked("0-2,1", "a,b,c"), "a b c");
  EXPECT_EQ(picked("1", "a,a,b,b"), "b b");  // a scheduler's list: a host once for each slot
}

TEST(HostNumbers, Mistakes) {
  for (const char* bad : {"", "a", "1-", "-1", "2-1", "1,,2", "0-3:2"}) {
    EXPECT_THAT(picked(bad, "a"), HasSubstr("is not a list of host numbers")) << bad;
  }
  EXPECT_THAT(picked("0-3", "a,b"), HasSubstr("no host has the number 3: the 2 hosts are numbered from 0 to 1"));
  const auto none = pick_hosts(*parse_host_numbers("0", "--nodes"), {});
  EXPECT_THAT(none.status().message(), HasSubstr("no hosts are listed"));
}

TEST(Spares, AreTheLastHostsWhenAllAreHealthy) {
  const auto choice = leave_spares_out(1, {}, hosts("a:2,b:2,c:2"));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(names(choice->hosts), "a b");
  EXPECT_EQ(choice->hosts[0].slots, 2);
  EXPECT_THAT(choice->notes, ElementsAre("c is spare"));
}

TEST(Spares, ReplaceUnhealthyHosts) {
  const auto choice = leave_spares_out(1, {{"a", ""}, {"b", "ssh: no route"}, {"c", ""}}, hosts("a,b,c"));
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(names(choice->hosts), "a c");
  EXPECT_THAT(choice->notes, ElementsAre("b is left out: ssh: no route"));
}

TEST(Spares, FailWhenTooFewHostsAreHealthy) {
  const auto choice = leave_spares_out(1, {{"a", "down"}, {"c", "full"}}, hosts("a,b,c"));
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), base::Code::kUnavailable);
  EXPECT_EQ(choice.status().message(), "1 of the 2 needed hosts are healthy; a: down; c: full; see muster doctor");
}

TEST(Spares, AHealthCheckAloneNeedsAll) {
  EXPECT_EQ(names(leave_spares_out(0, {{"a", ""}}, hosts("a,b"))->hosts), "a b");
  EXPECT_FALSE(leave_spares_out(0, {{"a", "down"}}, hosts("a,b")).ok());
}

TEST(Spares, LeaveAtLeastOneHost) {
  EXPECT_THAT(leave_spares_out(2, {}, hosts("a,b")).status().message(), HasSubstr("--spares 2 leaves no host"));
  EXPECT_THAT(leave_spares_out(1, {}, hosts("a,a")).status().message(), HasSubstr("one is known"));
}

}  // namespace
}  // namespace muster::cli::host_choice_test
