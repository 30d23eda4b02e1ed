#include "cli/top/top_help.h"

#include <gtest/gtest.h>

#include "cli/top/cell_text.h"

namespace muster::cli::top_help_test {
namespace {

TEST(TopHelp, NamesTheKeysOnNarrowScreens) {
  std::string text;
  for (const StyledLine& line : help_lines()) {
    text += text_of(line) + "\n";
    EXPECT_LE(cells_in(text_of(line)), 60) << text_of(line);
  }
  for (const char* const key : {"q", "Tab", "Enter", "Esc", "/", "?", "PgUp", "Home", "mouse"}) {
    EXPECT_NE(text.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace muster::cli::top_help_test
