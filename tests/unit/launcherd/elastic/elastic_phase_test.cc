#include "launcherd/elastic/elastic_phase.h"

#include <array>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/unit/support/phase_diagram.h"

namespace muster::launcherd::elastic_phase_test {
namespace {

using enum ElasticPhase;
using Cell = std::optional<ElasticPhase>;

constexpr Cell kNo = std::nullopt;

// Every pair, written down a second time. Columns as all_elastic_events(): planned, complete, process lost, settled,
// reported, reset, end.
const std::map<ElasticPhase, std::array<Cell, 7>> kExpected = {
    {kWaiting, {kStarting, kNo, kNo, kNo, kNo, kNo, kOver}},
    {kStarting, {kNo, kRunning, kSettling, kNo, kNo, kNo, kOver}},
    {kSettling, {kNo, kNo, kSettling, kWaiting, kNo, kNo, kOver}},
    {kRunning, {kNo, kNo, kNo, kNo, kBarrier, kNo, kNo}},
    {kBarrier, {kNo, kNo, kNo, kNo, kBarrier, kWaiting, kOver}},
    {kOver, {kNo, kNo, kNo, kNo, kNo, kNo, kNo}},
};

TEST(ElasticPhase, MatchesEveryPairOfPhaseAndEvent) {
  ASSERT_EQ(kExpected.size(), all_elastic_phases().size());
  ASSERT_EQ(all_elastic_events().size(), kExpected.at(kWaiting).size());
  for (const ElasticPhase from : all_elastic_phases()) {
    for (std::size_t i = 0; i < all_elastic_events().size(); ++i) {
      EXPECT_EQ(next_phase(from, all_elastic_events()[i]), kExpected.at(from)[i])
          << name_of(from) << ", " << name_of(all_elastic_events()[i]);
    }
  }
}

TEST(ElasticPhase, DesignPageShowsTheTable) {
  testing_support::expect_in_design(
      "elastic phases", testing_support::phase_diagram(
                            all_elastic_phases(), all_elastic_events(), [](ElasticPhase from, ElasticEvent event) {
                              const Cell next = next_phase(from, event);
                              return next && *next != from ? name_of(*next) : std::string_view();
                            }));
}

TEST(ElasticPhase, NamesAreDifferent) {
  std::set<std::string_view> names;
  for (const ElasticPhase phase : all_elastic_phases()) names.insert(name_of(phase));
  EXPECT_EQ(names.size(), all_elastic_phases().size());
  names.clear();
  for (const ElasticEvent event : all_elastic_events()) names.insert(name_of(event));
  EXPECT_EQ(names.size(), all_elastic_events().size());
}

}  // namespace
}  // namespace muster::launcherd::elastic_phase_test
