#include "launcherd/elastic/elastic_actions.h"

#include <set>

#include <gtest/gtest.h>

namespace muster::launcherd::elastic_actions_test {
namespace {

TEST(ElasticActions, NamesAreDifferent) {
  std::set<std::string_view> causes;
  for (int i = 0; i <= static_cast<int>(ElasticCause::kNewProcess); ++i) {
    causes.insert(name_of(static_cast<ElasticCause>(i)));
  }
  EXPECT_EQ(causes.size(), 6U);
  EXPECT_EQ(name_of(ElasticCause::kHostLost), "host lost");
  std::set<std::string_view> ends;
  for (int i = 0; i <= static_cast<int>(ElasticEnd::kNoSurvivor); ++i) ends.insert(name_of(static_cast<ElasticEnd>(i)));
  EXPECT_EQ(ends.size(), 7U);
  EXPECT_EQ(name_of(ElasticEnd::kResetLimit), "reset limit");
}

}  // namespace
}  // namespace muster::launcherd::elastic_actions_test
