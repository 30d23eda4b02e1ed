#include "cli/view/array_table.h"

#include <gtest/gtest.h>

namespace muster::cli::array_table_test {
namespace {

v1::ElementRange range(int first, int last, v1::JobState state, std::optional<int> exit_code = {}) {
  v1::ElementRange range;
  range.set_first(first);
  range.set_last(last);
  range.set_state(state);
  if (exit_code) range.set_exit_code(*exit_code);
  return range;
}

TEST(ArrayTable, CountsWhatThereIs) {
  v1::ArrayStatus array;
  array.add_elements()->set_last(9);
  v1::IndexRange& last = *array.add_elements();
  last.set_first(20);
  last.set_last(20);
  EXPECT_EQ(describe_array(array), "0-9,20");
  array.set_most_at_once(4);
  array.set_running(3);
  array.set_waiting(5);
  array.set_succeeded(1);
  array.set_failed(1);
  array.set_killed(1);
  EXPECT_EQ(describe_array(array), "0-9,20%4: 3 run, 5 wait, 1 succeeded, 1 failed, 1 killed");
}

TEST(ArrayTable, HasARowForEachRange) {
  const std::vector<v1::ElementRange> ranges = {range(0, 99, v1::JOB_STATE_SUCCEEDED, 0),
                                                range(100, 100, v1::JOB_STATE_FAILED, 3),
                                                range(101, 999'999, v1::JOB_STATE_QUEUED)};
  EXPECT_EQ(format_elements(ranges, false),
            "\n  elements  state\n"
            "      0-99  SUCCEEDED\n"
            "       100  FAILED 3\n"
            "101-999999  QUEUED\n");
  EXPECT_EQ(format_elements({ranges[0]}, true),
            "\nelements  state\n"
            "    0-99  SUCCEEDED\n"
            "and more elements; --all lists them\n");
}

}  // namespace
}  // namespace muster::cli::array_table_test
