#include "cli/top/column_table.h"

#include <gtest/gtest.h>

namespace muster::cli::column_table_test {
namespace {

std::vector<ScreenColumn> columns() {
  return {{"job", Side::kLeft, 9, 8}, {"ranks", Side::kRight, 1, 6}, {"what", Side::kLeft, 5, 4}};
}

std::vector<std::string> texts(const std::vector<StyledLine>& lines) {
  std::vector<std::string> result;
  for (const StyledLine& line : lines) result.push_back(text_of(line));
  return result;
}

using Texts = std::vector<std::string>;

TEST(ColumnTable, ColumnsAreAsWideAsTheirText) {
  const std::vector<ScreenRow> rows{{.cells = {{{"abcd"}}, {{"12"}}, {{"./train --all"}}}}};
  EXPECT_EQ(texts(table_lines(columns(), rows, 40)), (Texts{"job   ranks  what", "abcd     12  ./train --all"}));
}

TEST(ColumnTable, TheLeastImportantColumnsGoFirst) {
  const std::vector<ScreenRow> rows{{.cells = {{{"abcd"}}, {{"12"}}, {{"./train --all"}}}}};
  EXPECT_EQ(texts(table_lines(columns(), rows, 12)), (Texts{"job   what", "abcd  ./tra…"}));
  EXPECT_EQ(texts(table_lines(columns(), rows, 8)), (Texts{"job", "abcd"}));
  EXPECT_EQ(texts(table_lines(columns(), rows, 3)), (Texts{"job", "ab…"}));
  EXPECT_EQ(texts(table_lines(columns(), rows, 0)), (Texts{"", ""}));
}

TEST(ColumnTable, LongTextIsCutAtItsColumn) {
  const std::vector<ScreenRow> rows{{.cells = {{{"abcdefghijk"}}, {{"1"}}, {{"x"}}}}};
  EXPECT_EQ(texts(table_lines(columns(), rows, 40)).at(1), "abcdefg…      1  x");
}

TEST(ColumnTable, ARowOfOneCellHasNoColumns) {
  EXPECT_EQ(texts(table_lines(columns(), {{.cells = {{{"…"}}}}}, 40)).at(1), "…");
}

TEST(ColumnTable, BarsShowTheirPart) {
  EXPECT_EQ(load_bar(0.5, "50%", 12), "[|||||  50%]");
  EXPECT_EQ(load_bar(0, "0%", 12), "[        0%]");
  EXPECT_EQ(load_bar(1, "100%", 12), "[||||||100%]");
  EXPECT_EQ(load_bar(7, "700%", 12), "[||||||700%]");
  EXPECT_EQ(load_bar(0.5, "50%", 2), "5…");
}

}  // namespace
}  // namespace muster::cli::column_table_test
