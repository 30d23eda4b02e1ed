// Helpers for tests of state tables: all pairs of phase and event, the phases that can follow, and the numbers of
// the names. A table is the function next_step(phase, event), which is found beside the type of the phase.
#pragma once

#include <cstddef>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::testing_support {

// Calls `check` with the phase, the event, and the step or nullopt.
template <typename Phases, typename Events, typename Check>
void for_each_pair(const Phases& phases, const Events& events, Check check) {
  for (const auto from : phases) {
    for (const auto event : events) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(from), name_of(event)));
      check(from, event, next_step(from, event));
    }
  }
}

// Returns the phases to which any sequence of events leads, `from` included.
template <typename Phase, typename Events>
std::set<Phase> reachable_phases(Phase from, const Events& events) {
  std::set<Phase> seen = {from};
  for (std::size_t before = 0; before != seen.size();) {
    before = seen.size();
    for (const Phase phase : std::set(seen)) {
      for (const auto event : events) {
        if (const auto step = next_step(phase, event)) seen.insert(step->to);
      }
    }
  }
  return seen;
}

// Tables are indexed by the numbers of these values.
template <typename Values>
void expect_numbered_by_position(const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(static_cast<std::size_t>(values[i]), i);
}

}  // namespace muster::testing_support
