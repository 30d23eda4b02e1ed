#include "base/free_if_empty.h"

#include <gtest/gtest.h>

namespace muster::base::free_if_empty_test {
namespace {

TEST(FreeIfEmpty, FreesALargeBufferOnceItIsEmpty) {
  std::string buffer(10'000, 'x');
  free_if_empty(buffer, 256);
  EXPECT_EQ(buffer.size(), 10'000u);
  buffer.clear();
  free_if_empty(buffer, 256);
  EXPECT_LE(buffer.capacity(), 256u);
}

TEST(FreeIfEmpty, KeepsASmallBuffer) {
  std::string buffer(200, 'x');
  const std::size_t capacity = buffer.capacity();
  buffer.clear();
  free_if_empty(buffer, 256);
  EXPECT_EQ(buffer.capacity(), capacity);
}

}  // namespace
}  // namespace muster::base::free_if_empty_test
