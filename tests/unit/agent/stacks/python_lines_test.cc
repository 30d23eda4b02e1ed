#include "agent/stacks/python_lines.h"

#include <string_view>

#include <gtest/gtest.h>

namespace muster::agent::python_lines_test {
namespace {

int line(LineTable kind, std::string_view table, std::int64_t offset) {
  return line_of(kind, std::as_bytes(std::span(table)), 10, offset);
}

TEST(PythonLines, UntilVersion39AreDeltas) {
  constexpr std::string_view kTable("\x04\x01\x06\xfe\x02\x00\x02\x05", 8);
  EXPECT_EQ(line(LineTable::kDeltas, kTable, 0), 10);
  EXPECT_EQ(line(LineTable::kDeltas, kTable, 3), 10);
  EXPECT_EQ(line(LineTable::kDeltas, kTable, 4), 11);
  EXPECT_EQ(line(LineTable::kDeltas, kTable, 10), 9);
  EXPECT_EQ(line(LineTable::kDeltas, kTable, 1000), 14);
}

TEST(PythonLines, OfVersion310AreRanges) {
  constexpr std::string_view kTable("\x04\x01\x06\xfe\x02\x80\x02\x05", 8);
  EXPECT_EQ(line(LineTable::kRanges, kTable, 0), 11);
  EXPECT_EQ(line(LineTable::kRanges, kTable, 4), 9);
  EXPECT_EQ(line(LineTable::kRanges, kTable, 10), 0);  // has no line
  EXPECT_EQ(line(LineTable::kRanges, kTable, 12), 14);
  EXPECT_EQ(line(LineTable::kRanges, kTable, 14), 0);
}

TEST(PythonLines, SinceVersion311AreLocations) {
  // Two units in a short form; one unit, one line on; one unit, three lines back, without columns; one unit, 100 lines
  // on, in the long form; one unit without a line.
  constexpr std::string_view kTable("\x81\x00\xd8\x00\x00\xe8\x07\xf0\x48\x03\x00\x00\x00\xf8", 14);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 2), 10);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 4), 11);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 6), 8);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 8), 108);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 10), 0);
  EXPECT_EQ(line(LineTable::kLocations, kTable, 12), 0);
}

TEST(PythonLines, BeforeTheFirstInstructionAreTheFirst) {
  for (const LineTable kind : {LineTable::kDeltas, LineTable::kRanges, LineTable::kLocations}) {
    EXPECT_EQ(line(kind, "", -2), 10);
  }
}

}  // namespace
}  // namespace muster::agent::python_lines_test
