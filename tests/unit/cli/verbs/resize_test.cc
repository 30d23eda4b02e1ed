#include "cli/verbs/resize.h"

#include <gtest/gtest.h>

#include "model/placement.h"

namespace muster::cli::resize_test {
namespace {

// The size of a job of eight ranks after the change; -1 if the text is no change.
int from_eight(std::string_view text) {
  const auto change = parse_size_change(text);
  return change ? change->from(8) : -1;
}

TEST(SizeChange, IsRelativeWithASignAndAbsoluteWithEquals) {
  EXPECT_EQ(from_eight("+2"), 10);
  EXPECT_EQ(from_eight("-2"), 6);
  EXPECT_EQ(from_eight("=12"), 12);
  EXPECT_EQ(from_eight("-9"), -1) << "the verb refuses this size";
}

TEST(SizeChange, NeedsASignAndAWholeNumber) {
  for (const char* const text : {"", "+", "12", "+0", "=0", "+2x", "+ 2", "--2", "=-1", "+1.5"}) {
    EXPECT_FALSE(parse_size_change(text)) << text;
  }
  EXPECT_FALSE(parse_size_change("=" + std::to_string(model::kMaxRanks + 1)));
  EXPECT_TRUE(parse_size_change("=" + std::to_string(model::kMaxRanks)));
}

TEST(SizeChange, TheHelpShowsEachForm) {
  const CommandDoc& doc = resize_doc();
  EXPECT_NE(doc.description.find("+N and -N"), std::string_view::npos);
  ASSERT_FALSE(doc.examples.empty());
}

}  // namespace
}  // namespace muster::cli::resize_test
