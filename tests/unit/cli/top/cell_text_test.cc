#include "cli/top/cell_text.h"

#include <gtest/gtest.h>

namespace muster::cli::cell_text_test {
namespace {

TEST(CellText, HarmlessTextHasNoControlCharacters) {
  EXPECT_EQ(harmless("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(harmless("tab\there\n"), "tab\\x09here\\x0a");
  EXPECT_EQ(harmless("\xc2\x9b"), "\\xc2\\x9b") << "CSI as one character";
  EXPECT_EQ(harmless("\xe2\x80\xae"), "\\xe2\\x80\\xae") << "turns the direction of text";
  EXPECT_EQ(harmless("bad \xff\xc3"), "bad \\xff\\xc3");
  EXPECT_EQ(harmless("über 漢字…"), "über 漢字…");
  EXPECT_EQ(harmless(harmless("\x1b\xff")), harmless("\x1b\xff"));
}

TEST(CellText, WideCharactersTakeTwoCells) {
  EXPECT_EQ(cells_in("abc"), 3);
  EXPECT_EQ(cells_in("漢字"), 4);
  EXPECT_EQ(cells_in("e\xcc\x81"), 1) << "an accent joins the letter";
  EXPECT_EQ(cells_in("🙂"), 2);
}

TEST(CellText, CutsAtCells) {
  EXPECT_EQ(cut_to("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to("abcdef", 5), "abcd…");
  EXPECT_EQ(cut_to("漢字漢字", 5), "漢字…");
  EXPECT_EQ(cut_to("漢字漢字", 4), "漢…") << "half a character never stays";
  EXPECT_EQ(cut_to("abc", 1), "…");
  EXPECT_EQ(cut_to("abc", 0), "");
}

TEST(CellText, PadsToCells) {
  EXPECT_EQ(padded_to("ab", 4), "ab  ");
  EXPECT_EQ(padded_to("ab", 4, Side::kRight), "  ab");
  EXPECT_EQ(padded_to("漢字漢字", 4), "漢… ");
}

TEST(CellText, KeepsTheEnd) {
  EXPECT_EQ(end_of("abcdef", 3), "def");
  EXPECT_EQ(end_of("漢字x", 2), "x");
  EXPECT_EQ(end_of("ab", 5), "ab");
}

TEST(CellText, RemovesWholeCharacters) {
  EXPECT_EQ(without_last("aé"), "a");
  EXPECT_EQ(without_last("a"), "");
  EXPECT_EQ(without_last(""), "");
}

}  // namespace
}  // namespace muster::cli::cell_text_test
