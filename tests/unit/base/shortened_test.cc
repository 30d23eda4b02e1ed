#include "base/shortened.h"

#include <gtest/gtest.h>

namespace muster::base::shortened_test {
namespace {

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc\xe2\x80\xa6");
  EXPECT_EQ(shortened("a\xc3\xbc\xc3\xbc\xc3\xbc", 7), "a\xc3\xbc\xc3\xbc\xc3\xbc");
  EXPECT_EQ(shortened("a\xc3\xbc\xc3\xbc\xc3\xbc", 6), "a\xc3\xbc\xe2\x80\xa6");
  EXPECT_EQ(shortened("a\xc3\xbc\xc3\xbc\xc3\xbc", 5), "a\xe2\x80\xa6");  // in the middle of one
  EXPECT_EQ(shortened("abcdefg", 3), "\xe2\x80\xa6");
}

}  // namespace
}  // namespace muster::base::shortened_test
