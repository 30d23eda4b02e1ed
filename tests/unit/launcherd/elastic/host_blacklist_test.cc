#include "launcherd/elastic/host_blacklist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::host_blacklist_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::MonotonicTime kNow{1000s};

TEST(HostBlacklist, KeepsHostsForEverWithoutRange) {
  HostBlacklist list(std::nullopt, [] { return 0.5; });
  list.add("a", kNow);
  EXPECT_TRUE(list.contains("a"));
  EXPECT_FALSE(list.contains("b"));
  EXPECT_EQ(list.next_end({"a"}), std::nullopt);
  EXPECT_THAT(list.take_recovered({"a"}, kNow + 10000h), IsEmpty());
  EXPECT_THAT(list.hosts(), ElementsAre("a"));
}

// elastic.md A3: the count is raised before its use, so the first time lies in [2 LO, 3 LO].
TEST(HostBlacklist, DoublesTheTimeUpToTheLimit) {
  HostBlacklist list({{2s, 20s}}, [] { return 0.5; });
  base::MonotonicTime now = kNow;
  for (const base::Duration expected :
       {base::Duration(5s), base::Duration(9s), base::Duration(17s), base::Duration(20s), base::Duration(20s)}) {
    list.add("a", now);
    EXPECT_EQ(list.next_end({"a"}), now + expected);
    EXPECT_THAT(list.take_recovered({"a"}, now + expected - 1ms), IsEmpty());
    now += expected;
    EXPECT_THAT(list.take_recovered({"a"}, now), ElementsAre("a"));
    EXPECT_FALSE(list.contains("a"));
  }
}

TEST(HostBlacklist, SecondAdditionDoesNotLengthenTheTime) {
  HostBlacklist list({{1s, 100s}}, [] { return 0.0; });
  list.add("a", kNow);
  list.add("a", kNow + 1s);
  EXPECT_EQ(list.next_end({"a"}), kNow + 2s);
  EXPECT_EQ(list.end_of("a"), kNow + 2s);
  EXPECT_EQ(list.end_of("b"), std::nullopt);
  EXPECT_THAT(list.take_recovered({"a"}, kNow + 2s), ElementsAre("a"));
  EXPECT_EQ(list.end_of("a"), std::nullopt) << "it is not on the list";
}

TEST(HostBlacklist, HostOutsideOfTheListStays) {
  HostBlacklist list({{1s, 100s}}, [] { return 0.0; });
  list.add("a", kNow);
  EXPECT_THAT(list.take_recovered({"b"}, kNow + 1h), IsEmpty());
  EXPECT_EQ(list.next_end({"b"}), std::nullopt);
  EXPECT_TRUE(list.contains("a"));
}

TEST(HostBlacklist, ManyFailuresStayWithinTheRange) {
  HostBlacklist list({{1s, 3600s}}, [] { return 0.999; });
  base::MonotonicTime now = kNow;
  for (int i = 0; i < 200; ++i) {
    list.add("a", now);
    EXPECT_LE(*list.next_end({"a"}), now + 3600s);
    now += 3600s;
    EXPECT_THAT(list.take_recovered({"a"}, now), ElementsAre("a"));
  }
}

}  // namespace
}  // namespace muster::launcherd::host_blacklist_test
