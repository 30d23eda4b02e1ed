#include "launcherd/elastic/host_list_filter.h"

#include <gtest/gtest.h>

namespace muster::launcherd::host_list_filter_test {
namespace {

using Hosts = std::vector<ElasticHost>;
const Hosts kTwo = {{"a", 2}, {"b", 2}};
const Hosts kThree = {{"a", 2}, {"b", 2}, {"c", 2}};

TEST(HostListFilter, UsesTheFirstListAtOnce) {
  HostListFilter filter;
  EXPECT_EQ(filter.take(kTwo), kTwo);
  EXPECT_EQ(filter.take(kTwo), std::nullopt);
}

TEST(HostListFilter, UsesANewListWhenItComesTwice) {
  HostListFilter filter;
  (void)filter.take(kTwo);
  EXPECT_EQ(filter.take(kThree), std::nullopt);
  EXPECT_EQ(filter.take(kThree), kThree);
  EXPECT_EQ(filter.take(kThree), std::nullopt);
}

// horovod#2484: a script that answers with nothing once removes no host.
TEST(HostListFilter, ForgetsAnAnswerThatCameOnce) {
  HostListFilter filter;
  (void)filter.take(kTwo);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(filter.take({}), std::nullopt);
    EXPECT_EQ(filter.take(kTwo), std::nullopt);
  }
  EXPECT_EQ(filter.take({}), std::nullopt);
  EXPECT_EQ(filter.take(kThree), std::nullopt) << "another list: counted anew";
  EXPECT_EQ(filter.take({}), std::nullopt);
  EXPECT_EQ(filter.take({}), Hosts{}) << "an empty list that comes twice is legal";
}

TEST(HostListFilter, OrderOfLinesDoesNotMatter) {
  HostListFilter filter;
  (void)filter.take(kTwo);
  EXPECT_EQ(filter.take({{"b", 2}, {"a", 2}}), std::nullopt);
  EXPECT_EQ(filter.take({{"b", 2}, {"a", 2}}), std::nullopt);
}

TEST(HostListFilter, TakesTheNumberOfAnswersThatItNeeds) {
  HostListFilter once(1);
  (void)once.take(kTwo);
  EXPECT_EQ(once.take(kThree), kThree);
  HostListFilter thrice(3);
  (void)thrice.take(kTwo);
  EXPECT_EQ(thrice.take(kThree), std::nullopt);
  EXPECT_EQ(thrice.take(kThree), std::nullopt);
  EXPECT_EQ(thrice.take(kThree), kThree);
}

}  // namespace
}  // namespace muster::launcherd::host_list_filter_test
