// All allreduces over both kinds of links: the same bits on all ranks, and what a reduction in double precision gives.
#include "collectives/algorithm/allreduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/collectives/algorithm/vectors.h"
#include "tests/unit/collectives/support/large.h"
#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::allreduce_test {
namespace {

using base::Code;
using Allreduce = base::Status (*)(Exchange&, const Operation&, const ReduceTask&);

struct Candidate {
  const char* name;
  Allreduce function;
  bool is_one_go;
};
constexpr Candidate kCandidates[] = {
    {"OneShot", one_shot_allreduce, true},
    {"RecursiveDoubling", recursive_doubling_allreduce, false},
    {"Pairwise", pairwise_allreduce, true},
    {"Ring", ring_allreduce, false},
};

struct Case {
  DType type = DType::kF32;
  RedOp op = RedOp::kSum;
  Scale scale{};
  std::size_t count = 0;
  bool is_in_place = false;
};

std::string text_of(const Case& test) {
  return fmt::format("{} {} of {}{}, scaled by {}, {}, 1/{}", test.count, name_of(test.type), name_of(test.op),
                     test.is_in_place ? " in place" : "", test.scale.before, test.scale.after, test.scale.divisor);
}

// Runs it on all ranks and checks everything that has to hold.
class Runner {
 public:
  Runner(TestWorld& world, Allreduce function) : world_(world), function_(function) {}

  void check(const Case& test) {
    SCOPED_TRACE(text_of(test) + fmt::format(" on {} ranks", world_.size()));
    const std::size_t bytes = test.count * size_of(test.type);
    const auto ranks = static_cast<std::size_t>(world_.size());
    std::vector<std::vector<std::byte>> inputs(ranks);
    std::vector<std::vector<std::byte>> outputs(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      inputs[rank] = random_vector(test.type, test.op, test.count, seed_++);
      outputs[rank] = test.is_in_place ? inputs[rank] : poisoned(bytes);
    }
    const std::vector<std::vector<std::byte>> before = inputs;
    const Operation operation{sequence_++, {test.count, -1, Op::kAllreduce, test.type, test.op, 0}};
    const auto results = world_.run([&](Exchange& exchange) {
      const auto rank = static_cast<std::size_t>(exchange.rank());
      ReduceTask reduction{test.type, test.op, test.scale, inputs[rank].data(), outputs[rank].data(), test.count};
      if (test.is_in_place) reduction.input = outputs[rank].data();
      return function_(exchange, operation, reduction);
    });
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(results[rank].ok()) << results[rank];
      ASSERT_TRUE(outputs[rank] == outputs[0]) << "rank " << rank << " has other bits than rank 0";
      EXPECT_TRUE(is_guard_intact(outputs[rank]));
      EXPECT_TRUE(inputs[rank] == before[rank]) << "an input has changed";
    }
    const int roundings = world_.size() + 2;
    for (std::size_t i = 0; i < test.count; ++i) {
      ASSERT_TRUE(is_reduction(test.type, test.op, test.scale, before, outputs[0].data(), i, roundings))
          << "element " << i << " is " << value_at(test.type, &outputs[0][i * size_of(test.type)]);
    }
  }

 private:
  TestWorld& world_;
  Allreduce function_;
  std::uint64_t sequence_ = 0;
  unsigned seed_ = 1;
};

class AllreduceTest : public ::testing::TestWithParam<std::tuple<Wire, Candidate>> {
 protected:
  Wire wire_ = std::get<0>(GetParam());
  Candidate candidate_ = std::get<1>(GetParam());
};

TEST_P(AllreduceTest, AllNumbersOfRanksAndSizes) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    TestWorld world(wire_, ranks);
    Runner runner(world, candidate_.function);
    for (const std::size_t count : {0U, 1U, 7U, 16U, 1000U, 4099U}) {
      runner.check({.count = count});
      runner.check({.type = DType::kI32, .count = count, .is_in_place = true});
    }
  }
}

TEST_P(AllreduceTest, LargeVectors) {
  for (const int ranks : {2, 3, 5}) {
    TestWorld world(wire_, ranks);
    Runner runner(world, candidate_.function);
    runner.check({.count = large(500'001)});
    runner.check({.count = large(500'001), .is_in_place = true});
  }
  // More than one piece of the pairwise one, but under ThreadSanitizer.
  TestWorld world(wire_, 3);
  Runner(world, candidate_.function).check({.count = large(2'500'001), .is_in_place = true});
}

TEST_P(AllreduceTest, EveryTypeAndReduction) {
  for (const int ranks : {2, 3, 6}) {
    TestWorld world(wire_, ranks);
    Runner runner(world, candidate_.function);
    for (int type = 0; type < kDTypes; ++type) {
      for (int op = 0; op < kRedOps; ++op) {
        Case test{.type = static_cast<DType>(type), .op = static_cast<RedOp>(op), .count = 515};
        if (test.op == RedOp::kAvg && test.type == DType::kBool) continue;
        if (test.op == RedOp::kAvg) test.scale.divisor = static_cast<std::uint32_t>(ranks);
        if (test.op == RedOp::kSum && is_float(test.type)) test.scale = {.before = 0.5, .after = 3, .divisor = 1};
        if (!candidate_.is_one_go && ranks > 2 && wants_one_go(test.type)) continue;
        runner.check(test);
        test.is_in_place = true;
        runner.check(test);
      }
    }
  }
}

TEST_P(AllreduceTest, TheSameBitsFromRunToRun) {
  constexpr std::size_t kCount = 10'007;
  TestWorld world(wire_, 5);
  std::vector<std::byte> first;
  for (std::uint64_t run = 0; run < 3; ++run) {
    std::vector<std::byte> result;
    const auto results = world.run([&](Exchange& exchange) {
      const auto input = random_vector(DType::kF32, RedOp::kSum, kCount, static_cast<unsigned>(exchange.rank()));
      auto output = poisoned(kCount * 4);
      const ReduceTask reduction{DType::kF32, RedOp::kSum, {}, input.data(), output.data(), kCount};
      const base::Status status =
          candidate_.function(exchange, {run, {kCount, -1, Op::kAllreduce, DType::kF32, RedOp::kSum, 0}}, reduction);
      if (exchange.rank() == 3) result = output;
      return status;
    });
    for (const base::Status& status : results) ASSERT_TRUE(status.ok()) << status;
    if (run == 0) first = result;
    EXPECT_TRUE(result == first);
  }
}

TEST_P(AllreduceTest, APeerThatLeavesInTheMiddleEndsItForAll) {
  constexpr std::size_t kCount = 300'000;
  for (const int ranks : {2, 4, 5}) {
    TestWorld world(wire_, ranks);
    const auto results = world.run([&](Exchange& exchange) -> base::Status {
      const int leaver = exchange.size() - 1;
      std::vector<float> data(kCount, 1.0F);
      const ReduceTask reduction{DType::kF32, RedOp::kSum, {}, data.data(), data.data(), kCount};
      const Call call{kCount, -1, Op::kAllreduce, DType::kF32, RedOp::kSum, 0};
      base::Status status;
      for (std::uint64_t sequence = 0; status.ok() && sequence < 5; ++sequence) {
        if (exchange.rank() == leaver && sequence == 2) {
          world.leave(leaver);
          return base::error(Code::kCancelled, "has left");
        }
        status = candidate_.function(exchange, {sequence, call}, reduction);
      }
      // As a communicator does: whoever finds out tells the others of this host.
      if (!status.ok()) world.abort.raise({status.code(), leaver, "n", status.message()});
      return status;
    });
    for (int rank = 0; rank + 1 < ranks; ++rank) {
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].code(), Code::kUnavailable)
          << results[static_cast<std::size_t>(rank)];
    }
  }
}

TEST_P(AllreduceTest, DifferentCountsAreFound) {
  TestWorld world(wire_, 3);
  const auto results = world.run([&](Exchange& exchange) -> base::Status {
    const std::size_t count = exchange.rank() == 1 ? 101 : 100;
    std::vector<float> data(count, 1.0F);
    const ReduceTask reduction{DType::kF32, RedOp::kSum, {}, data.data(), data.data(), count};
    const base::Status status =
        candidate_.function(exchange, {1, {count, -1, Op::kAllreduce, DType::kF32, RedOp::kSum, 0}}, reduction);
    if (!status.ok()) world.abort.raise({status.code(), 1, "n", status.message()});
    return status;
  });
  for (const base::Status& result : results) {
    EXPECT_EQ(result.code(), Code::kFailedPrecondition) << result;
    EXPECT_NE(result.message().find("of 101 float32"), std::string::npos) << result;
  }
}

// What the last rank gets of floats whose order shows: large and small ones, and zeros of both signs.
std::vector<std::byte> bits_of(Allreduce function, int ranks, RedOp op) {
  constexpr std::size_t kCount = 400'003;
  TestWorld world(Wire::kTcp, ranks);
  std::vector<float> output(kCount);
  const auto results = world.run([&](Exchange& exchange) {
    std::vector<float> data(kCount);
    std::mt19937 random(static_cast<unsigned>(exchange.rank()));
    for (float& value : data) {
      const auto dice = random();
      value = dice % 3 == 0 ? (dice % 2 == 0 ? 0.0F : -0.0F) : static_cast<float>(dice) / (dice % 5 == 0 ? 3e6F : 7.0F);
    }
    const Scale scale{.before = 1.0 / 3, .after = 1.0 / 7, .divisor = 1};
    const ReduceTask reduction{DType::kF32, op, scale, data.data(), data.data(), kCount};
    const base::Status status = function(exchange, {1, {kCount, -1, Op::kAllreduce, DType::kF32, op, 0}}, reduction);
    if (exchange.rank() == ranks - 1) output = data;
    return status;
  });
  for (const base::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  const auto bytes = std::as_bytes(std::span(output));
  return {bytes.begin(), bytes.end()};
}

// The choice between these may differ from run to run (choice.cc).
TEST(AllreduceBitsTest, AlgorithmsThatCompeteGiveTheSame) {
  for (const RedOp op : {RedOp::kSum, RedOp::kMax, RedOp::kMin, RedOp::kProd}) {
    const auto of_two = bits_of(one_shot_allreduce, 2, op);
    for (const Candidate& candidate : kCandidates) {
      EXPECT_TRUE(bits_of(candidate.function, 2, op) == of_two) << candidate.name << ", " << name_of(op);
    }
    EXPECT_TRUE(bits_of(one_shot_allreduce, 5, op) == bits_of(pairwise_allreduce, 5, op)) << name_of(op);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, AllreduceTest,
                         ::testing::Combine(::testing::Values(Wire::kRing, Wire::kTcp),
                                            ::testing::ValuesIn(kCandidates)),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param) == Wire::kRing ? "Ring" : "Tcp") +
                                  std::get<1>(param.param).name;
                         });

}  // namespace
}  // namespace muster::collectives::allreduce_test
