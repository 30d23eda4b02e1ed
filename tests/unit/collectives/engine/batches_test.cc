#include "collectives/engine/batches.h"

#include <gtest/gtest.h>

namespace muster::collectives::batches_test {
namespace {

Due due(Signature signature) {
  return {.name = "", .problem = {}, .of_ranks = {std::nullopt, std::move(signature)}};
}
Due floats(std::int64_t count, RedOp op = RedOp::kSum) {
  return due({.kind = Kind::kAllreduce, .op = op, .tensors = {{DType::kF32, {count}}}});
}
std::vector<std::vector<std::size_t>> dues_of(const std::vector<Batch>& batches) {
  std::vector<std::vector<std::size_t>> list;
  for (const Batch& batch : batches) {
    list.emplace_back();
    for (const Piece& piece : batch.pieces) list.back().push_back(piece.due);
  }
  return list;
}
using Dues = std::vector<std::vector<std::size_t>>;

TEST(BatchesTest, WhatIsAlikeGoesTogetherUpToTheThreshold) {
  const std::vector<Due> list{floats(16), floats(16), floats(16), floats(16)};
  EXPECT_EQ(dues_of(batches_of(list, 192)), (Dues{{0, 1, 2}, {3}}));
  EXPECT_EQ(dues_of(batches_of(list, 1 << 20)), (Dues{{0, 1, 2, 3}}));
  EXPECT_EQ(dues_of(batches_of(list, 0)), (Dues{{0}, {1}, {2}, {3}}));
}

TEST(BatchesTest, OtherTensorsBetweenThemAreNoObstacle) {
  std::vector<Due> list{floats(1), floats(1, RedOp::kMax),
                        due({.kind = Kind::kBroadcast, .root = 0, .tensors = {{DType::kF32, {4}}}}), floats(1),
                        floats(1, RedOp::kMax)};
  EXPECT_EQ(dues_of(batches_of(list, 1 << 20)), (Dues{{0, 3}, {1, 4}, {2}}));
  list[0].problem = base::Status(base::Code::kFailedPrecondition, "differs");
  EXPECT_EQ(dues_of(batches_of(list, 1 << 20)), (Dues{{1, 4}, {2}, {3}}));
}

TEST(BatchesTest, WhatIsAloneIsPackedWithNothing) {
  Due alone = floats(16);
  alone.of_ranks[1]->is_alone = true;
  const std::vector<Due> list{floats(16), alone, floats(16), alone};
  EXPECT_EQ(dues_of(batches_of(list, 1 << 20)), (Dues{{0, 2}, {1}, {3}}));
}

TEST(BatchesTest, AGroupOfSeveralTypesIsSeveralBatches) {
  const std::vector<Due> list{
      due({.kind = Kind::kAllreduce, .tensors = {{DType::kF32, {3}}, {DType::kF64, {3}}, {DType::kF32, {20}}}})};
  const std::vector<Batch> batches = batches_of(list, 1 << 20);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].pieces.size(), 2U);
  EXPECT_EQ(batches[0].pieces[1].tensor, 2U);
  EXPECT_EQ(batches[0].bytes, 64U + 128U);
}

TEST(BatchesTest, WhatTravelsAsAnotherTypeGoesByItselfAndTakesLess) {
  const auto on_gpu = [](std::optional<DType> wire) {
    return due({.kind = Kind::kAllreduce, .tensors = {{DType::kF32, {64}}}, .is_on_gpu = true, .wire = wire});
  };
  const std::vector<Due> list{on_gpu(DType::kF16), on_gpu(std::nullopt), on_gpu(DType::kF16), on_gpu(DType::kBF16)};
  const std::vector<Batch> batches = batches_of(list, 256);
  EXPECT_EQ(dues_of(batches), (Dues{{0, 2}, {1}, {3}}));
  EXPECT_EQ(batches[0].bytes, 256U);
  EXPECT_EQ(batches[1].bytes, 256U);
}

}  // namespace
}  // namespace muster::collectives::batches_test
