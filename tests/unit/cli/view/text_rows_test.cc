#include "cli/view/text_rows.h"

#include <gtest/gtest.h>

namespace muster::cli::text_rows_test {
namespace {

TEST(TextRows, ColumnsAreAsWideAsTheirLongestText) {
  EXPECT_EQ(format_rows({{"HOST", "SIZE"}, {"n1", "16 MB"}, {"n1000", ""}}), "HOST   SIZE\nn1     16 MB\nn1000  \n");
  EXPECT_EQ(format_rows({{"one"}}), "one\n");
  EXPECT_EQ(format_rows({}), "");
}

}  // namespace
}  // namespace muster::cli::text_rows_test
