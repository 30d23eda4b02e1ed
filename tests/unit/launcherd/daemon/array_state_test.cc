#include "launcherd/daemon/array_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::array_state_test {
namespace {

using model::JobState;

base::JobId id(char letter) {
  return *base::JobId::parse(std::string(8, letter));
}

ArrayState array(const std::string& indexes) {
  NewJob element{.id = id('a'), .name = "sweep", .priority = 3, .user = "ann"};
  element.spec = "spec";
  return {*model::parse_array(indexes), std::move(element)};
}

TEST(ArrayState, StartsTheLowestWithinTheLimit) {
  ArrayState state = array("3,5-6,9%2");
  EXPECT_EQ(state.may_start(), 2);
  EXPECT_EQ(state.next(), 3);
  state.start(3, id('b'));
  state.start(5, id('c'));
  EXPECT_EQ(state.may_start(), 0);
  EXPECT_EQ(state.waiting(), 2);
  state.end(5, JobState::kSucceeded, 0);
  EXPECT_EQ(state.may_start(), 1);
  EXPECT_EQ(state.next(), 6);
  EXPECT_EQ(array("0-99").may_start(), 100);
}

TEST(ArrayState, NewElementsHaveTheValuesOfTheArray) {
  ArrayState state = array("0-1");
  state.set_priority(7);
  const NewJob element = state.new_element(id('a'), 1, id('b'), base::WallTime(std::chrono::seconds(5)));
  EXPECT_EQ(element.id, id('b'));
  EXPECT_EQ(element.name, "sweep");
  EXPECT_EQ(element.priority, 7);
  EXPECT_EQ(element.user, "ann");
  EXPECT_EQ(element.spec, "spec");
  EXPECT_EQ(element.element->array, id('a'));
  EXPECT_EQ(element.element->index, 1);
}

TEST(ArrayState, EndsWithItsWorstElements) {
  ArrayState state = array("0-3");
  for (int index = 0; index < 4; ++index) state.start(index, id('b'));
  EXPECT_FALSE(state.is_over());
  state.end(2, JobState::kFailed, 7);
  state.end(1, JobState::kLost, std::nullopt);
  state.end(1, JobState::kSucceeded, 0);  // it has ended already
  state.end(0, JobState::kSucceeded, 0);
  state.end(3, JobState::kKilled, 143);
  ASSERT_TRUE(state.is_over());
  EXPECT_EQ(state.outcome().state, JobState::kFailed);
  EXPECT_EQ(state.outcome().exit_code, 125) << "that of the lowest element that failed";
  EXPECT_EQ(state.outcome().reason, "2 of its 4 elements failed: 1-2");
}

TEST(ArrayState, EndsKilledIfElementsWereKilled) {
  ArrayState state = array("0-1");
  state.end(0, JobState::kKilled, 143);
  state.start(1, id('b'));
  state.end(1, JobState::kSucceeded, 0);
  EXPECT_EQ(state.outcome().state, JobState::kKilled);
  EXPECT_EQ(state.outcome().exit_code, 143);
  EXPECT_EQ(state.outcome().reason, "1 of its 2 elements were killed");
}

TEST(ArrayState, StartsNoElementOnceItIsStopped) {
  ArrayState state = array("0-9");
  state.start(0, id('b'));
  state.stop(124, "its deadline has passed");
  state.stop(143, "killed");
  EXPECT_EQ(state.may_start(), 0);
  EXPECT_FALSE(state.is_over()) << "an element runs";
  state.end(0, JobState::kFailed, 1);
  ASSERT_TRUE(state.is_over());
  EXPECT_EQ(state.outcome().state, JobState::kKilled);
  EXPECT_EQ(state.outcome().exit_code, 124);
  EXPECT_EQ(state.outcome().reason, "its deadline has passed");
}

}  // namespace
}  // namespace muster::launcherd::array_state_test
