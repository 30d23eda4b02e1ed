#include "cli/view/svg_text.h"

#include <gtest/gtest.h>

namespace muster::cli::svg_text_test {
namespace {

TEST(SvgText, EscapesMarkup) {
  EXPECT_EQ(escape_markup("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(escape_markup("\xef\xbf\xbe|\xef\xbf\xbf"), "?|?");
}

TEST(SvgText, CutsWhatDoesNotFit) {
  EXPECT_EQ(fitting_text("rank 3", 42), "rank 3");
  EXPECT_EQ(fitting_text("rank 30", 42), "rank …");
  EXPECT_EQ(fitting_text("rank 30", 20), "");
  EXPECT_EQ(fitting_text("rank 30", -5), "");
  EXPECT_EQ(fitting_text("関関関関", 42), "関…") << "not within a character";
}

}  // namespace
}  // namespace muster::cli::svg_text_test
