#include "cli/top/list_cursor.h"

#include <gtest/gtest.h>

namespace muster::cli::list_cursor_test {
namespace {

TEST(ListCursor, ScrollsAsLittleAsNeeded) {
  ListCursor cursor;
  cursor.move_to(4, 100, 5);
  EXPECT_EQ(cursor.top, 0);
  cursor.move_to(5, 100, 5);
  EXPECT_EQ(cursor.top, 1);
  cursor.move_to(99, 100, 5);
  EXPECT_EQ(cursor.top, 95);
  cursor.move_to(96, 100, 5);
  EXPECT_EQ(cursor.top, 95);
  cursor.move_to(0, 100, 5);
  EXPECT_EQ(cursor.top, 0);
}

TEST(ListCursor, StaysInTheList) {
  ListCursor cursor{.at = 50, .top = 48};
  cursor.move_to(1000, 10, 5);
  EXPECT_EQ(cursor.at, 9);
  EXPECT_EQ(cursor.top, 5);
  cursor.move_to(-3, 10, 5);
  EXPECT_EQ(cursor.at, 0);
  cursor.move_to(3, 0, 0);
  EXPECT_EQ(cursor.at, 0);
  EXPECT_EQ(cursor.top, 0);
}

}  // namespace
}  // namespace muster::cli::list_cursor_test
