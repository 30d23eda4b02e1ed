// What moves and reduces over links beside allreduce, over both kinds of links and numbers of ranks that are no powers
// of two.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/algorithm/allgather.h"
#include "collectives/algorithm/alltoall.h"
#include "collectives/algorithm/barrier.h"
#include "collectives/algorithm/broadcast.h"
#include "collectives/algorithm/reduce_scatter.h"
#include "collectives/algorithm/rooted.h"
#include "tests/unit/collectives/algorithm/vectors.h"
#include "tests/unit/collectives/support/large.h"
#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::movement_test {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t index_of(int rank) {
  return static_cast<std::size_t>(rank);
}

// What `from` has for `to`: different for every pair.
Bytes message(int from, int to, std::size_t size) {
  return random_vector(DType::kU8, RedOp::kSum, size, static_cast<unsigned>(from * 100 + to));
}
bool is_message(const std::byte* at, int from, int to, std::size_t size) {
  const Bytes expected = message(from, to, size);
  return std::equal(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(size), at);
}

// Blocks one after the other with gaps between them.
std::vector<Slice> blocks_of(int ranks, const std::function<std::size_t(int)>& size_of_rank) {
  std::vector<Slice> blocks;
  std::size_t begin = 3;
  for (int rank = 0; rank < ranks; ++rank) {
    blocks.push_back({begin, size_of_rank(rank)});
    begin += size_of_rank(rank) + 5;
  }
  return blocks;
}
std::size_t end_of(const std::vector<Slice>& blocks) {
  return blocks.back().begin + blocks.back().size + 5;
}
// Nothing was written between and behind the blocks.
bool are_gaps_intact(const Bytes& vector, const std::vector<Slice>& blocks) {
  std::vector<bool> is_used(vector.size());
  for (const Slice& block : blocks) {
    std::fill_n(is_used.begin() + static_cast<std::ptrdiff_t>(block.begin), block.size, true);
  }
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (!is_used[i] && vector[i] != kPoison) return false;
  }
  return true;
}

class MovementTest : public ::testing::TestWithParam<Wire> {
 protected:
  // `body` on all ranks of worlds of several sizes, with some sizes of blocks.
  void everywhere(Op op, const std::function<base::Status(Exchange&, const Operation&, std::size_t)>& body) {
    for (const int ranks : {1, 2, 3, 4, 7, 9}) {
      TestWorld world(GetParam(), ranks);
      std::uint64_t sequence = 0;
      for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 13, 4096, large(100'003)}) {
        SCOPED_TRACE(fmt::format("{} ranks, {} bytes", ranks, size));
        const Operation operation{sequence++, {size, -1, op, DType::kU8, RedOp::kSum, 0}};
        const auto results = world.run([&](Exchange& exchange) { return body(exchange, operation, size); });
        for (const base::Status& result : results) ASSERT_TRUE(result.ok()) << result;
      }
    }
  }
};

TEST_P(MovementTest, Broadcast) {
  for (const auto broadcast : {tree_broadcast, chain_broadcast}) {
    everywhere(Op::kBroadcast, [&](Exchange& exchange, const Operation& operation, std::size_t size) {
      for (const int root : {0, exchange.size() - 1, exchange.size() / 2}) {
        Bytes data = exchange.rank() == root ? message(root, 0, size) : poisoned(size);
        MUSTER_RETURN_IF_ERROR(broadcast(exchange, operation, data.data(), size, root));
        EXPECT_TRUE(is_message(data.data(), root, 0, size) && is_guard_intact(data));
      }
      return base::ok_status();
    });
  }
}

TEST_P(MovementTest, Allgather) {
  for (const auto allgather : {direct_allgather, ring_allgather}) {
    everywhere(Op::kAllgatherv, [&](Exchange& exchange, const Operation& operation, std::size_t size) {
      const int rank = exchange.rank();
      // Ranks give different numbers of bytes; some none.
      const auto blocks = blocks_of(exchange.size(), [&](int of) { return size * index_of(of % 3) / 2; });
      for (const bool is_in_place : {false, true}) {
        Bytes output(end_of(blocks), kPoison);
        const std::size_t own = blocks[index_of(rank)].size;
        Bytes input = message(rank, 0, own);
        const std::byte* from = input.data();
        if (is_in_place) {
          from = output.data() + blocks[index_of(rank)].begin;
          std::copy_n(input.begin(), own, output.begin() + static_cast<std::ptrdiff_t>(blocks[index_of(rank)].begin));
        }
        MUSTER_RETURN_IF_ERROR(allgather(exchange, operation, from, output.data(), blocks));
        for (int peer = 0; peer < exchange.size(); ++peer) {
          const Slice& block = blocks[index_of(peer)];
          EXPECT_TRUE(is_message(output.data() + block.begin, peer, 0, block.size)) << "block of rank " << peer;
        }
        EXPECT_TRUE(are_gaps_intact(output, blocks));
      }
      return base::ok_status();
    });
  }
}

TEST_P(MovementTest, Alltoall) {
  everywhere(Op::kAlltoallv, [](Exchange& exchange, const Operation& operation, std::size_t size) {
    const int rank = exchange.rank();
    const auto size_between = [size](int from, int to) { return size * index_of((from + 2 * to) % 3) / 2; };
    const auto input_blocks = blocks_of(exchange.size(), [&](int peer) { return size_between(rank, peer); });
    const auto output_blocks = blocks_of(exchange.size(), [&](int peer) { return size_between(peer, rank); });
    Bytes input(end_of(input_blocks), kPoison);
    for (int peer = 0; peer < exchange.size(); ++peer) {
      const Slice& block = input_blocks[index_of(peer)];
      const Bytes bytes = message(rank, peer, block.size);
      std::copy_n(bytes.begin(), block.size, input.begin() + static_cast<std::ptrdiff_t>(block.begin));
    }
    Bytes output(end_of(output_blocks), kPoison);
    MUSTER_RETURN_IF_ERROR(
        pairwise_alltoall(exchange, operation, input.data(), input_blocks, output.data(), output_blocks));
    for (int peer = 0; peer < exchange.size(); ++peer) {
      const Slice& block = output_blocks[index_of(peer)];
      EXPECT_TRUE(is_message(output.data() + block.begin, peer, rank, block.size)) << "block of rank " << peer;
    }
    EXPECT_TRUE(are_gaps_intact(output, output_blocks));
    return base::ok_status();
  });
}

TEST_P(MovementTest, AlltoallInPlace) {
  everywhere(Op::kAlltoall, [](Exchange& exchange, const Operation& operation, std::size_t size) {
    const int rank = exchange.rank();
    const auto blocks = blocks_of(exchange.size(), [&](int peer) { return size + index_of((peer + rank) % 2); });
    Bytes data(end_of(blocks), kPoison);
    for (int peer = 0; peer < exchange.size(); ++peer) {
      const Slice& block = blocks[index_of(peer)];
      const Bytes bytes = message(rank, peer, block.size);
      std::copy_n(bytes.begin(), block.size, data.begin() + static_cast<std::ptrdiff_t>(block.begin));
    }
    MUSTER_RETURN_IF_ERROR(alltoall_in_place(exchange, operation, data.data(), blocks));
    for (int peer = 0; peer < exchange.size(); ++peer) {
      const Slice& block = blocks[index_of(peer)];
      EXPECT_TRUE(is_message(data.data() + block.begin, peer, rank, block.size)) << "block of rank " << peer;
    }
    EXPECT_TRUE(are_gaps_intact(data, blocks));
    return base::ok_status();
  });
}

TEST_P(MovementTest, GatherAndScatter) {
  everywhere(Op::kGather, [](Exchange& exchange, const Operation& operation, std::size_t size) {
    const int rank = exchange.rank();
    const auto blocks = blocks_of(exchange.size(), [&](int of) { return size * index_of(of % 3) / 2; });
    const std::size_t own = blocks[index_of(rank)].size;
    for (const int root : {0, exchange.size() - 1}) {
      Bytes all(end_of(blocks), kPoison);
      const Bytes input = message(rank, 0, own);
      MUSTER_RETURN_IF_ERROR(gather(exchange, operation, input.data(), all.data(), blocks, root));
      for (int peer = 0; peer < exchange.size() && rank == root; ++peer) {
        const Slice& block = blocks[index_of(peer)];
        EXPECT_TRUE(is_message(all.data() + block.begin, peer, 0, block.size)) << "block of rank " << peer;
      }
      EXPECT_TRUE(are_gaps_intact(all, rank == root ? blocks : std::vector<Slice>{}));
      Bytes back = poisoned(own);
      MUSTER_RETURN_IF_ERROR(scatter(exchange, operation, all.data(), back.data(), blocks, root));
      EXPECT_TRUE(is_message(back.data(), rank, 0, own) && is_guard_intact(back));
    }
    return base::ok_status();
  });
}

TEST_P(MovementTest, ReduceToARoot) {
  for (const auto algorithm : {direct_reduce, sliced_reduce}) {
    everywhere(Op::kReduce, [&](Exchange& exchange, const Operation& operation, std::size_t count) {
      for (const int root : {0, exchange.size() - 1}) {
        std::vector<Bytes> inputs;
        for (int rank = 0; rank < exchange.size(); ++rank) {
          inputs.push_back(random_vector(DType::kF16, RedOp::kSum, count, static_cast<unsigned>(rank)));
        }
        Bytes output = root == 0 ? poisoned(count * 2) : inputs[index_of(exchange.rank())];
        ReduceTask reduction{DType::kF16, RedOp::kSum, {0.5, 2, 1}, inputs[index_of(exchange.rank())].data(),
                             nullptr,     count};
        if (exchange.rank() == root) reduction.output = output.data();
        if (exchange.rank() == root && root != 0) reduction.input = output.data();
        MUSTER_RETURN_IF_ERROR(algorithm(exchange, operation, reduction, root));
        EXPECT_TRUE(is_guard_intact(output));
        for (std::size_t i = 0; i < count && exchange.rank() == root; i += 1 + count / 1000) {
          EXPECT_TRUE(is_reduction(DType::kF16, RedOp::kSum, reduction.scale, inputs, output.data(), i, 1));
        }
      }
      return base::ok_status();
    });
  }
}

TEST_P(MovementTest, ReduceScatter) {
  everywhere(Op::kReduceScatter, [](Exchange& exchange, const Operation& operation, std::size_t count) {
    const auto ranks = index_of(exchange.size());
    const std::size_t first = index_of(exchange.rank()) * count;
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < exchange.size(); ++rank) {
      inputs.push_back(random_vector(DType::kI32, RedOp::kSum, count * ranks, static_cast<unsigned>(rank)));
    }
    const Bytes& own = inputs[index_of(exchange.rank())];
    for (const bool is_in_place : {false, true}) {
      Bytes output = is_in_place ? own : poisoned(count * 4);
      const void* const input = is_in_place ? output.data() : own.data();
      const ReduceTask reduction{DType::kI32, RedOp::kSum, {}, input, output.data(), count};
      MUSTER_RETURN_IF_ERROR(pairwise_reduce_scatter(exchange, operation, reduction));
      EXPECT_TRUE(is_guard_intact(output));
      // is_reduction() looks at the same element of inputs and output.
      Bytes spread(own.size());
      std::copy_n(output.begin(), count * 4, spread.begin() + static_cast<std::ptrdiff_t>(first * 4));
      for (std::size_t i = first; i < first + count; i += 1 + count / 1000) {
        EXPECT_TRUE(is_reduction(DType::kI32, RedOp::kSum, {}, inputs, spread.data(), i, 1));
      }
    }
    return base::ok_status();
  });
}

TEST_P(MovementTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  for (const int ranks : {1, 2, 3, 8, 9}) {
    TestWorld world(GetParam(), ranks);
    std::atomic<int> came = 0;
    const auto results = world.run([&](Exchange& exchange) {
      for (int i = 0; i < 20; ++i) {
        ++came;
        MUSTER_RETURN_IF_ERROR(
            dissemination_barrier(exchange, {static_cast<std::uint64_t>(i), {0, -1, Op::kBarrier, {}, {}, 0}}));
        EXPECT_GE(came, (i + 1) * exchange.size());
      }
      return base::ok_status();
    });
    for (const base::Status& result : results) EXPECT_TRUE(result.ok()) << result;
  }
}

INSTANTIATE_TEST_SUITE_P(Links, MovementTest, ::testing::Values(Wire::kRing, Wire::kTcp, Wire::kSealed),
                         [](const auto& param) { return name_of(param.param); });

TEST(SlicesTest, CoverTheVectorAtCacheLines) {
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 1000U, 4096U, 100'001U}) {
    for (int parts = 1; parts <= 9; ++parts) {
      std::size_t at = 0;
      for (int part = 0; part < parts; ++part) {
        const Slice slice = slice_of(bytes, parts, part);
        EXPECT_EQ(slice.begin, at);
        EXPECT_TRUE(slice.size == 0 || slice.begin % 64 == 0);
        at += slice.size;
      }
      EXPECT_EQ(at, bytes);
    }
  }
}

}  // namespace
}  // namespace muster::collectives::movement_test
