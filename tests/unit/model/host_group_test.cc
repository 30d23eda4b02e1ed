#include "model/host_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_spec.h"

namespace muster::model::host_group_test {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

TEST(HostGroup, WritesListsAsTheOptionTakesThem) {
  const struct {
    Names hosts;
    const char* expected;
  } cases[] = {
      {{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n2"}, "n1,n2"},
      {{"n3", "n1", "n2"}, "n[1-3]"},
      {{"n8", "n9", "n10", "n12"}, "n[8-10,12]"},
      {{"n08", "n09", "n10"}, "n[08-10]"},
      {{"n098", "n099", "n100", "n7", "n8", "n9"}, "n[098-100],n[7-9]"},
      {{"head", "n1", "gpu1", "n2", "n3"}, "head,n[1-3],gpu1"},
      {{"n1.site.org", "n2.site.org", "n3.site.org"}, "n[1-3].site.org"},
      {{"rack1n1-ib", "rack1n2-ib", "rack1n3-ib"}, "rack1n[1-3]-ib"},
      {{"10.0.0.7", "10.0.0.8", "10.0.0.9"}, "10.0.0.[7-9]"},
      {{"n1", "n1", "n2", "n3"}, "n[1-3]"},
      {{"n12345678901", "n12345678902", "n12345678903"}, "n12345678901,n12345678902,n12345678903"},
      {{"0", "1", "2"}, "[0-2]"},
  };
  for (const auto& [hosts, expected] : cases) EXPECT_EQ(format_host_list(hosts), expected);
}

TEST(HostGroup, AListReadsBackAsTheSameHosts) {
  Names hosts;
  for (int i = 1; i <= 120; i += i % 7 == 0 ? 2 : 1) hosts.push_back(fmt::format("n{:03}", i));
  const auto read = parse_host_list(format_host_list(hosts), "-H");
  ASSERT_TRUE(read.ok()) << read.status();
  Names back;
  for (const HostSpec& host : *read) back.push_back(host.name);
  EXPECT_EQ(back, hosts);
}

TEST(HostGroup, TakesTheHostOutOfAText) {
  EXPECT_EQ(without_host("ssh bob@n1 true", "n1"), "ssh bob@HOST true");
  EXPECT_EQ(without_host("n1: n12, n1.", "n1"), "HOST: n12, HOST.");
  EXPECT_EQ(without_host("no answer at 10.0.0.7 port 22 (refused)", "n1"), "no answer on port 22 (refused)");
  EXPECT_EQ(without_host("no answer at n1 port 22 (refused)", "n1"), "no answer on port 22 (refused)");
  EXPECT_EQ(without_host("no answer at fe80::1 port 22", "n1"), "no answer on port 22");
  EXPECT_EQ(without_host("dialled 10.0.0.7: refused, 1.2.3", "n1"), "dialled ADDRESS: refused, 1.2.3");
  EXPECT_EQ(without_host("nothing", ""), "nothing");
}

std::vector<HostText> refused(const Names& hosts) {
  std::vector<HostText> texts;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    texts.push_back({hosts[i], fmt::format("host {}: nothing accepts connections at 10.0.0.{} port 22 (connection "
                                           "refused); start sshd there",
                                           hosts[i], i)});
  }
  return texts;
}

TEST(HostGroup, ShowsTheReasonOfManyHostsOnce) {
  std::vector<HostText> texts = refused({"n1", "n2", "n3"});
  texts.insert(texts.begin() + 1, {"m1", "m1: no log-in within 5 s"});
  texts.push_back({"", "a general reason"});
  EXPECT_THAT(
      group_host_texts(texts),
      ElementsAre("3 hosts n[1-3]: nothing accepts connections on port 22 (connection refused); start sshd there",
                  "m1: no log-in within 5 s", "a general reason"));
}

TEST(HostGroup, CountsAHostOnce) {
  const std::vector<HostText> texts(4, {"n1", "n1: its disk is full"});
  EXPECT_EQ(group_host_texts(texts).size(), 4u);
}

TEST(HostGroup, LeavesTheTextsOfFewHostsAsTheyAre) {
  const std::vector<HostText> texts = refused({"n1", "n2"});
  EXPECT_THAT(group_host_texts(texts), ElementsAre(texts[0].text, texts[1].text));
  EXPECT_TRUE(group_host_texts({}).empty());
}

TEST(HostGroup, BoundsItsLines) {
  std::vector<HostText> texts;
  for (int i = 1; i <= 10'000; ++i) {
    texts.push_back({fmt::format("n{:05}", i), fmt::format("n{:05}: exit status {}", i, i / 100)});
  }
  const Names lines = group_host_texts(texts, 4);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], "99 hosts n[00001-00099]: exit status 0");
  EXPECT_EQ(lines[4], "and 9,601 more hosts, for other reasons");
  texts.assign(1, {"n1", "n1: " + std::string(1'000, 'x')});
  EXPECT_EQ(group_host_texts(texts)[0].size(), kLongestGroupLine);
}

TEST(HostGroup, ShortReasonsHaveNoHostAndNoAdvice) {
  EXPECT_EQ(short_reason("host n1: refused; start sshd", "n1"), "refused");
  EXPECT_EQ(short_reason("n1: refused", "n1"), "refused");
  EXPECT_EQ(short_reason("n1: refused", ""), "n1: refused");
}

TEST(HostGroup, SaysWhichHostsAreNotUpAndWhy) {
  EXPECT_EQ(describe_not_up({{"n0912", "host n0912: connection refused; start sshd there"},
                             {"n0007", "no answer at 10.0.0.7 port 22 in time"},
                             {"n0008", "no answer at 10.0.0.8 port 22 in time"}}),
            "n0007,n0008: no answer on port 22 in time; n0912: connection refused");
  std::vector<HostText> texts;
  for (int i = 1; i <= 10'000; ++i) texts.push_back({fmt::format("n{}", i), fmt::format("reason {}", i % 500)});
  const std::string line = describe_not_up(texts);
  EXPECT_LE(line.size(), 400u);
  EXPECT_THAT(line, ::testing::StartsWith("n[1,501,1001,"));
  EXPECT_THAT(line, ::testing::EndsWith(" more"));
}

TEST(HostGroup, SaysWhichHostsAreWaitedFor) {
  EXPECT_EQ(describe_waiting(3, 3, {}), "3 of 3 hosts are up");
  EXPECT_EQ(describe_waiting(1, 2, {"n3"}), "1 of 2 hosts are up; waiting for n3");
  Names waiting = {"n0007", "n0912"};
  for (int i = 0; i < 27; ++i) waiting.push_back(fmt::format("m{}", 3 * i));
  EXPECT_EQ(describe_waiting(9'971, 10'000, waiting),
            "9,971 of 10,000 hosts are up; waiting for n0007,n0912,m[0,3,6,9,12,15,18,21,24,27] and 17 more");
}

TEST(HostGroup, KnowsTheUserInAPrefix) {
  std::vector<HostText> texts;
  for (const char* const host : {"a1", "a2", "a3"})
    texts.push_back({host, fmt::format("host bob@{}: cannot log in", host)});
  EXPECT_THAT(group_host_texts(texts), ElementsAre("3 hosts a[1-3]: cannot log in"));
}

}  // namespace
}  // namespace muster::model::host_group_test
