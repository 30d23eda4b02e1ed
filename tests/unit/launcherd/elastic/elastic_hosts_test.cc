#include "launcherd/elastic/elastic_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::elastic_hosts_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr base::MonotonicTime kNow{1000s};

std::vector<std::string> usable(const ElasticHosts& pool) {
  std::vector<std::string> hosts;
  for (const ElasticHost& host : pool.usable()) hosts.push_back(fmt::format("{}:{}", host.name, host.slots));
  return hosts;
}

TEST(ElasticHosts, KnownHostsKeepTheirOrder) {
  ElasticHosts pool(std::nullopt, [] { return 0.0; });
  pool.set_listed({{"a", 2}, {"b", 2}});
  pool.set_listed({{"c", 1}, {"b", 3}, {"a", 2}});
  EXPECT_THAT(usable(pool), ElementsAre("a:2", "b:3", "c:1"));
  pool.set_listed({{"c", 1}, {"b", 3}});
  pool.set_listed({{"a", 2}, {"c", 1}, {"b", 3}});
  EXPECT_THAT(usable(pool), ElementsAre("b:3", "c:1", "a:2")) << "a host that was away comes last";
  EXPECT_EQ(count_slots(pool.usable()), 6);
}

TEST(ElasticHosts, HostThatIsPutFirstStaysFirst) {
  ElasticHosts pool(std::nullopt, [] { return 0.0; });
  pool.set_listed({{"a", 1}, {"b", 1}, {"c", 1}});
  pool.put_first("c");
  pool.put_first("x");
  EXPECT_THAT(usable(pool), ElementsAre("c:1", "a:1", "b:1"));
  pool.set_listed({{"a", 1}, {"c", 1}, {"d", 1}});
  EXPECT_THAT(usable(pool), ElementsAre("c:1", "a:1", "d:1"));
}

TEST(ElasticHosts, AddsUpSlotsOfARepeatedHost) {
  ElasticHosts pool(std::nullopt, [] { return 0.0; });
  pool.set_listed({{"a", 2}, {"b", 1}, {"a", 1}, {"c", 0}});
  EXPECT_THAT(usable(pool), ElementsAre("a:3", "b:1"));
}

// PR horovod#3319: workers of a host that returns must not take the ranks of survivors.
TEST(ElasticHosts, RecoveredHostComesLast) {
  ElasticHosts pool({{1s, 10s}}, [] { return 0.0; });
  pool.set_listed({{"a", 1}, {"b", 1}});
  pool.blacklist("a", kNow);
  EXPECT_THAT(usable(pool), ElementsAre("b:1"));
  EXPECT_THAT(pool.blacklisted(), ElementsAre("a"));
  EXPECT_EQ(pool.next_recovery(), kNow + 2s);
  EXPECT_FALSE(pool.recover(kNow + 1s));
  EXPECT_TRUE(pool.recover(kNow + 2s));
  EXPECT_THAT(usable(pool), ElementsAre("b:1", "a:1"));
  EXPECT_THAT(pool.blacklisted(), IsEmpty());
}

TEST(ElasticHosts, HostThatIsNotListedDoesNotRecover) {
  ElasticHosts pool({{1s, 10s}}, [] { return 0.0; });
  pool.set_listed({{"a", 1}, {"b", 1}});
  pool.blacklist("a", kNow);
  pool.set_listed({{"b", 1}});
  EXPECT_EQ(pool.next_recovery(), std::nullopt);
  EXPECT_FALSE(pool.recover(kNow + 1h));
  pool.set_listed({{"b", 1}, {"a", 1}});
  EXPECT_TRUE(pool.recover(kNow + 1h));
}

TEST(ElasticHosts, LimitHoldsUntilTheSlotsChange) {
  ElasticHosts pool(std::nullopt, [] { return 0.0; });
  pool.set_listed({{"a", 3}});
  pool.limit("a", 2);
  pool.limit("a", 5);
  EXPECT_THAT(usable(pool), ElementsAre("a:2"));
  EXPECT_EQ(pool.limit_of("a"), 2);
  pool.set_listed({{"a", 3}, {"b", 1}});
  EXPECT_THAT(usable(pool), ElementsAre("a:2", "b:1"));
  pool.set_listed({{"a", 4}});
  EXPECT_THAT(usable(pool), ElementsAre("a:4"));
  EXPECT_FALSE(pool.limit_of("a").has_value());
}

}  // namespace
}  // namespace muster::launcherd::elastic_hosts_test
