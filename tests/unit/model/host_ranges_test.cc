#include "model/host_ranges.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/host_spec.h"

namespace muster::model::host_ranges_test {
namespace {

using Names = std::vector<std::string>;

Names read_back(const std::string& list) {
  const auto read = parse_host_list(list, "-H");
  EXPECT_TRUE(read.ok()) << list << ": " << read.status();
  Names names;
  if (read.ok()) {
    for (const HostSpec& host : *read) names.push_back(host.name);
  }
  return names;
}

Names numbered(const char* format, int first, int last) {
  Names names;
  for (int i = first; i <= last; ++i) names.push_back(fmt::format(fmt::runtime(format), i));
  return names;
}

TEST(HostRanges, PutsSeveralNumbersInBrackets) {
  const struct {
    Names hosts;
    const char* expected;
  } cases[] = {
      {{"r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3", "r3n1", "r3n2", "r3n3"}, "r[1-3]n[1-3]"},
      // The racks are too few, or their hosts differ.
      {{"r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3"}, "r1n[1-3],r2n[1-3]"},
      {{"r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3", "r3n1", "r3n2", "r3n4"}, "r1n[1-3],r2n[1-3],r3n[1-2,4]"},
      {{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.1.1", "10.0.1.2", "10.0.1.3", "10.0.2.1", "10.0.2.2", "10.0.2.3"},
       "10.0.[0-2].[1-3]"},
      {{"fe80::1", "n1"}, "[fe80::1],n1"},
      {{"n1", "n01", "n001"}, "n1,n01,n001"},
      {{"n1", "n1"}, "n1"},
  };
  for (const auto& [hosts, expected] : cases) EXPECT_EQ(format_host_list(hosts), expected);
}

// Random lists of names with padded and plain numbers, racks, domains and repeats.
TEST(HostRanges, AnyListReadsBackAsTheSameHosts) {
  std::mt19937 random(20260620);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  constexpr const char* kFormats[] = {"n{}",       "n{:02}",        "n{:04}",     "r{}n{:02}", "r{1}-c{0}",
                                      "gpu{}.org", "x{0}y{1}.a{2}", "10.0.{}.{}", "{}",        "login"};
  for (int round = 0; round < 300; ++round) {
    Names hosts;
    const int count = 1 + below(60);
    for (int i = 0; i < count; ++i) {
      hosts.push_back(fmt::format(fmt::runtime(kFormats[below(std::size(kFormats))]), below(12), below(4), below(3)));
    }
    const Names back = read_back(format_host_list(hosts));
    EXPECT_EQ(std::set<std::string>(back.begin(), back.end()), std::set<std::string>(hosts.begin(), hosts.end()));
    EXPECT_EQ(back.size(), std::set<std::string>(hosts.begin(), hosts.end()).size()) << "a host came twice";
  }
}

TEST(HostRanges, AListInNaturalOrderKeepsItsOrder) {
  for (const Names& hosts : {numbered("n{:04}", 1, 1000), numbered("n{}", 7, 120)}) {
    EXPECT_TRUE(std::ranges::is_sorted(hosts, is_natural_before));
    EXPECT_EQ(read_back(format_host_list(hosts)), hosts);
  }
  EXPECT_TRUE(is_natural_before("n2", "n10"));
  EXPECT_TRUE(is_natural_before("n2", "n2b"));
  EXPECT_TRUE(is_natural_before("r1n9", "r2n1"));
  EXPECT_FALSE(is_natural_before("n10", "n9"));
  EXPECT_FALSE(is_natural_before("n1", "n1"));
  EXPECT_TRUE(is_natural_before("n1", "n01") != is_natural_before("n01", "n1"));
}

TEST(HostRanges, AShortListSaysHowManyItLeavesOut) {
  EXPECT_EQ(short_host_list({}), "");
  EXPECT_EQ(short_host_list(numbered("n{:04}", 1, 997)), "n[0001-0997]");
  EXPECT_EQ(short_host_list({"n0007", "n0008", "n0012"}, 40), "n[0007-0008,0012]");
  EXPECT_EQ(short_host_list({"alpha", "beta", "gamma", "delta"}, 10), "alpha,beta and 2 more");
  EXPECT_EQ(short_host_list({"a-very-long-name", "b"}, 5), "a-very-long-name and 1 more");
  Names odd;
  for (int i = 1; i < 20'000; i += 2) odd.push_back(fmt::format("n{}", i));
  EXPECT_EQ(short_host_list(odd, 20), "n[1,3,5,7,9,11,13] and 9,993 more");
  Names racks;
  for (int rack = 1; rack < 2'000; rack += 2) {
    for (int i = 1; i <= 10; ++i) racks.push_back(fmt::format("r{}n{}", rack, i));
  }
  EXPECT_EQ(short_host_list(racks, 30), "r1n[1-10],r3n[1-10],r5n[1-10] and 9,970 more");
}

TEST(HostRanges, TenThousandHostsTakeMilliseconds) {
  Names hosts = numbered("node{:05}.cluster.example.org", 1, 10'000);
  std::ranges::shuffle(hosts, std::mt19937(1));
  std::erase_if(hosts, [](const std::string& name) { return name[8] == '3'; });
  const auto begin = std::chrono::steady_clock::now();
  const std::string list = short_host_list(hosts);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));  // 20 ms when the machine is idle
  EXPECT_LE(list.size(), kShortList + 20);
  EXPECT_THAT(list, ::testing::HasSubstr(" more"));
}

TEST(HostRanges, CountsHaveCommas) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(9'971), "9,971");
  EXPECT_EQ(format_count(1'000'000), "1,000,000");
}

}  // namespace
}  // namespace muster::model::host_ranges_test
