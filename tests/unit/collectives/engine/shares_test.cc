#include "collectives/engine/shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster::collectives::shares_test {
namespace {

using Rows = std::vector<std::size_t>;

Due alltoall_of(const std::vector<std::vector<std::int64_t>>& splits) {
  Due due;
  for (const auto& own : splits) {
    std::int64_t rows = 0;
    for (const std::int64_t split : own) rows += split;
    due.of_ranks.push_back(Signature{.kind = Kind::kAlltoall, .tensors = {{DType::kF32, {rows, 2}}}, .splits = own});
  }
  return due;
}

TEST(SharesTest, FirstRanksGetOneRowMore) {
  EXPECT_EQ(rows_scattered(7, 3), (Rows{3, 2, 2}));
  EXPECT_EQ(rows_scattered(6, 3), (Rows{2, 2, 2}));
  EXPECT_EQ(rows_scattered(1, 3), (Rows{1, 0, 0}));
  EXPECT_EQ(rows_scattered(0, 2), (Rows{0, 0}));
}

TEST(SharesTest, EveryRankBringsItsRows) {
  Due due;
  for (const std::int64_t rows : {4, 0, 1}) {
    due.of_ranks.push_back(
        Signature{.kind = Kind::kAllgather, .tensors = {{DType::kI8, {2}}, {DType::kF64, {rows, 3}}}});
  }
  EXPECT_EQ(rows_gathered(due, 0), (Rows{2, 2, 2}));
  EXPECT_EQ(rows_gathered(due, 1), (Rows{4, 0, 1}));
}

TEST(SharesTest, WhatIsSentIsWhatComes) {
  const Due due = alltoall_of({{1, 2, 0}, {0, 0, 5}, {3, 1, 1}});
  const Exchanged last = rows_exchanged(due, 2);
  EXPECT_EQ(last.received, (std::vector<std::int64_t>{0, 5, 1}));
  EXPECT_EQ(last.rows, 6U);
  std::size_t to_end = 0;
  std::size_t from_end = 0;
  for (std::size_t rank = 0; rank < 3; ++rank) {  // 8 bytes a row
    EXPECT_EQ(last.to[rank].begin, to_end);
    EXPECT_EQ(last.from[rank].begin, from_end);
    to_end += last.to[rank].size;
    from_end += last.from[rank].size;
    for (int other = 0; other < 3; ++other) {
      EXPECT_EQ(rows_exchanged(due, other).to[rank].size,
                rows_exchanged(due, static_cast<int>(rank)).from[static_cast<std::size_t>(other)].size);
    }
  }
  EXPECT_EQ(to_end, 40U);
  EXPECT_EQ(from_end, 48U);
}

}  // namespace
}  // namespace muster::collectives::shares_test
