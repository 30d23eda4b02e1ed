// What holds for every operation, type, number of ranks, size and placement, with inputs that are new in every run:
// results are the same in every bit on all ranks and in a second job, and within the type's bound of a float64
// reference; nothing but the output is written. MUSTER_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/group/communicator.h"
#include "tests/unit/collectives/support/large.h"
#include "tests/unit/collectives/support/numbers.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::properties_test {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::byte kPoison{0xa5};
constexpr std::size_t kGuard = 64;  // poisoned bytes behind an output

std::size_t at(int rank) {
  return static_cast<std::size_t>(rank);
}

unsigned seed_of_run() {
  const char* const text = std::getenv("MUSTER_SEED");
  static const unsigned seed = text != nullptr ? static_cast<unsigned>(std::stoul(text)) : std::random_device()();
  return seed;
}

// Sums of these are not exact: whoever adds them in another order gets other bits.
double any_number(std::mt19937& random, DType type, RedOp op) {
  if (!is_float(type)) return random_number(random, type, op);
  const int bits = type == DType::kBF16 ? 8 : type == DType::kF16 ? 11 : 24;
  const std::uint32_t range = 1U << (bits - 1);
  const double number = 1 + static_cast<double>(random() % range) / range;  // [1, 2), as precise as the type
  if (op == RedOp::kProd) return random() % 2 == 0 ? number : number / 2;
  return (random() % 2 == 0 ? number : -number) * std::ldexp(1, static_cast<int>(random() % 4));
}

struct Step {
  Op operation;
  DType type;
  RedOp op;
  std::size_t count;
  int root;
  bool in_place;
  unsigned number;  // of the step: part of what its inputs are drawn from
};

void PrintTo(const Step& step, std::ostream* out) {
  *out << "step " << step.number << ": " << name_of(step.operation) << " of " << step.count << " " << name_of(step.type)
       << ", " << name_of(step.op) << ", root " << step.root << (step.in_place ? ", in place" : "")
       << ", MUSTER_SEED=" << seed_of_run();
}

Bytes input_of(const Step& step, int rank, std::size_t count) {
  std::mt19937 random(seed_of_run() + 1'000'003 * step.number + static_cast<unsigned>(rank));
  Bytes bytes(count * size_of(step.type));
  for (std::size_t i = 0; i < count; ++i) {
    write_element(step.type, bytes.data() + i * size_of(step.type), any_number(random, step.type, step.op));
  }
  return bytes;
}

bool can_be_in_place(Op operation) {
  return operation == Op::kAllreduce || operation == Op::kReduce || operation == Op::kAllgather;
}

std::vector<Step> all_steps(int ranks) {
  std::vector<Step> steps;
  const auto add = [&](Op operation, DType type, RedOp op) {
    for (const std::size_t count : std::initializer_list<std::size_t>{0, 1, 1003}) {
      const auto number = static_cast<unsigned>(steps.size());
      const bool in_place = can_be_in_place(operation) && number % 2 == 1;
      steps.push_back({operation, type, op, count, static_cast<int>(number) % ranks, in_place, number});
    }
  };
  for (int i = 0; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    for (int j = 0; j < kRedOps; ++j) {
      const auto op = static_cast<RedOp>(j);
      if (type == DType::kBool && op == RedOp::kAvg) continue;
      for (const Op operation : {Op::kAllreduce, Op::kReduce, Op::kReduceScatter}) add(operation, type, op);
    }
    for (const Op operation : {Op::kBroadcast, Op::kAllgather, Op::kGather, Op::kScatter, Op::kAlltoall}) {
      add(operation, type, RedOp::kSum);
    }
  }
  return steps;
}

// One call on one rank: its input, its output, and what the output has to be.
class OneCall {
 public:
  OneCall(Communicator& comm, const Step& step)
      : comm_(comm), step_(step), bytes_(step.count * size_of(step.type)), size_(at(comm.size())) {}

  base::Status run() {
    const auto rank = at(comm_.rank());
    const std::vector<std::size_t> counts(size_, step_.count);
    std::vector<Slice> blocks;
    for (std::size_t i = 0; i < size_; ++i) blocks.push_back({i * bytes_, bytes_});
    in_ = input_of(step_, comm_.rank(), step_.count * blocks_in());
    original_ = in_;
    out_.assign(bytes_ * blocks_out() + kGuard, kPoison);
    std::byte* own = in_.data();
    if (step_.in_place) {
      own = out_.data() + (step_.operation == Op::kAllgather ? rank * bytes_ : 0);
      std::copy(in_.begin(), in_.end(), own);
    }
    const std::size_t count = step_.count;
    const int root = step_.root;
    std::byte* const out = out_.data();
    switch (step_.operation) {
      case Op::kAllreduce:
        return comm_.allreduce(own, out, count, step_.type, step_.op, {});
      case Op::kReduce:
        return comm_.reduce(own, out, count, step_.type, step_.op, root);
      case Op::kReduceScatter:
        return comm_.reduce_scatter(own, out, counts, step_.type, step_.op);
      case Op::kBroadcast:
        if (comm_.rank() == root) std::copy(in_.begin(), in_.end(), out);
        return comm_.broadcast(out, count, step_.type, root);
      case Op::kAllgather:
        return comm_.allgather(own, out, counts, step_.type, true);
      case Op::kGather:
        return comm_.gather(own, out, count, step_.type, root);
      case Op::kScatter:
        return comm_.scatter(own, out, count, step_.type, root);
      default:
        return comm_.alltoall(own, blocks, out, blocks, step_.type, count);
    }
  }

  bool is_untouched() const {
    return (step_.in_place || in_ == original_) &&
           std::all_of(out_.end() - kGuard, out_.end(), [](std::byte byte) { return byte == kPoison; });
  }
  // Without the guard; on ranks that get nothing, empty.
  Bytes result() const {
    return {out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(has_result() ? out_.size() - kGuard : 0)};
  }
  // Whether all ranks have the same result.
  bool is_common() const {
    return step_.operation == Op::kAllreduce || step_.operation == Op::kBroadcast || step_.operation == Op::kAllgather;
  }

  void expect_right() const {
    if (!has_result()) return;
    if (is_reduction()) return expect_reduced();
    Bytes expected;
    for (std::size_t from = 0; from < size_; ++from) {
      const bool is_from_root = step_.operation == Op::kBroadcast || step_.operation == Op::kScatter;
      if (is_from_root && from != at(step_.root)) continue;
      const Bytes input = input_of(step_, static_cast<int>(from), step_.count * blocks_in());
      const bool is_cut = step_.operation == Op::kScatter || step_.operation == Op::kAlltoall;
      const auto begin = input.begin() + static_cast<std::ptrdiff_t>(is_cut ? at(comm_.rank()) * bytes_ : 0);
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes_));
    }
    EXPECT_EQ(result(), expected);
  }

 private:
  bool is_reduction() const {
    return step_.operation == Op::kAllreduce || step_.operation == Op::kReduce || step_.operation == Op::kReduceScatter;
  }
  bool has_result() const {
    const bool is_for_root = step_.operation == Op::kReduce || step_.operation == Op::kGather;
    return !is_for_root || comm_.rank() == step_.root;
  }
  std::size_t blocks_in() const {
    const Op operation = step_.operation;
    return operation == Op::kReduceScatter || operation == Op::kScatter || operation == Op::kAlltoall ? size_ : 1;
  }
  std::size_t blocks_out() const {
    const Op operation = step_.operation;
    return operation == Op::kAllgather || operation == Op::kGather || operation == Op::kAlltoall ? size_ : 1;
  }

  void expect_reduced() const {
    const std::size_t element = size_of(step_.type);
    const std::size_t first = step_.operation == Op::kReduceScatter ? at(comm_.rank()) * step_.count : 0;
    std::vector<Bytes> inputs;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      inputs.push_back(input_of(step_, static_cast<int>(rank), step_.count * blocks_in()));
    }
    std::vector<double> numbers(size_);
    for (std::size_t i = 0; i < step_.count; ++i) {
      double magnitude = 1;
      for (std::size_t rank = 0; rank < size_; ++rank) {
        numbers[rank] = read_element(step_.type, inputs[rank].data() + (first + i) * element);
        const double size = std::fabs(numbers[rank]);
        magnitude = step_.op == RedOp::kProd ? magnitude * std::fmax(1, size) : magnitude + size;
      }
      const double found = read_element(step_.type, out_.data() + i * element);
      ASSERT_NEAR(found, reference(step_.op, step_.type, numbers), bound(step_.type, magnitude, size_))
          << "element " << i;
    }
  }

  Communicator& comm_;
  const Step& step_;
  const std::size_t bytes_;  // of a block
  const std::size_t size_;
  Bytes in_;
  Bytes original_;
  Bytes out_;
};

class PropertiesTest : public testing::TestWithParam<std::vector<int>> {
 protected:
  // `results` of the first who has some.
  void expect_same(const std::pair<unsigned, int>& key, Bytes result) {
    const std::lock_guard lock(mutex_);
    const auto [found, is_first] = results_.try_emplace(key, std::move(result));
    if (is_first) return;
    EXPECT_EQ(found->second, result);
  }

  std::mutex mutex_;
  std::map<std::pair<unsigned, int>, Bytes> results_;  // by step, and rank where ranks have different ones
};

TEST_P(PropertiesTest, ResultsAreRightAndTheSameInEveryBit) {
  RanksInThreads ranks(GetParam());
  const std::vector<Step> steps = all_steps(ranks.size());
  for (int job = 0; job < 2; ++job) {
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      for (const Step& step : steps) {
        const std::string what = testing::PrintToString(step);
        SCOPED_TRACE(what);
        OneCall call(*comm, step);
        const base::Status done = call.run();
        ASSERT_TRUE(done.ok()) << done;
        EXPECT_TRUE(call.is_untouched());
        expect_same({step.number, call.is_common() ? -1 : comm->rank()}, call.result());
        // What all have is looked at by one.
        if (job == 0 && (!call.is_common() || comm->rank() == step.root)) call.expect_right();
        if (testing::Test::HasFailure()) break;
      }
    });
  }
  EXPECT_GE(results_.size(), steps.size());
}

INSTANTIATE_TEST_SUITE_P(OneHost, PropertiesTest,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{3}, std::vector{4}, std::vector{5},
                                         std::vector{6}, std::vector{7}, std::vector{8}, std::vector{9}));
INSTANTIATE_TEST_SUITE_P(Hosts, PropertiesTest,
                         testing::Values(std::vector{2, 2}, std::vector{3, 1}, std::vector{1, 1, 1, 1},
                                         std::vector{4, 3, 2}));

class LargePropertiesTest : public testing::TestWithParam<std::vector<int>> {};

// 64 MiB and one element: more than any area, ring or socket holds, and no multiple of anything.
TEST_P(LargePropertiesTest, MoreThan64MiB) {
  if (base::kIsThreadSanitized) GTEST_SKIP() << "it is of size, not of order, and takes minutes";
  constexpr std::size_t kElements = (std::size_t{64} << 20) / sizeof(float) + 1;
  const auto number = [](int rank, std::size_t i) {
    const auto mixed = static_cast<std::uint32_t>(i * 2'654'435'761U + static_cast<unsigned>(rank) * 40'503U);
    return static_cast<float>(mixed >> 8) / 16'777'216.0F - 0.5F;
  };
  std::mutex mutex;
  std::vector<float> first;
  RanksInThreads ranks(GetParam());
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    std::vector<float> data(kElements);
    for (std::size_t i = 0; i < kElements; ++i) data[i] = number(comm->rank(), i);
    const base::Status done = comm->allreduce(data.data(), data.data(), kElements, DType::kF32, RedOp::kSum, {});
    ASSERT_TRUE(done.ok()) << done;
    {
      const std::lock_guard lock(mutex);
      if (first.empty()) first = data;
      EXPECT_EQ(std::memcmp(data.data(), first.data(), kElements * sizeof(float)), 0);
    }
    // And moved: what the last rank has, whose size is no multiple of a float's.
    const int last = comm->size() - 1;
    std::byte* const bytes = reinterpret_cast<std::byte*>(data.data());
    if (comm->rank() != last) std::fill(data.begin(), data.end(), -1.0F);
    ASSERT_TRUE(comm->broadcast(bytes, kElements * sizeof(float) - 3, DType::kU8, last).ok());
    EXPECT_EQ(std::memcmp(data.data(), first.data(), kElements * sizeof(float) - 3), 0);
  });
  ASSERT_EQ(first.size(), kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    double sum = 0;
    for (int rank = 0; rank < ranks.size(); ++rank) sum += number(rank, i);
    ASSERT_NEAR(first[i], sum, bound(DType::kF32, 0.5 * ranks.size(), at(ranks.size()))) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LargePropertiesTest,
                         testing::Values(std::vector{2}, std::vector{3}, std::vector{1, 1}, std::vector{2, 1}));

class ManyCommunicatorsTest : public testing::TestWithParam<std::vector<int>> {};

// All ranks, the same backwards, and halves: each in a thread of its own, with operations drawn from one seed.
TEST_P(ManyCommunicatorsTest, InThreadsAtOnce) {
  RanksInThreads ranks(GetParam());
  ranks.run([](const std::shared_ptr<Communicator>& comm) {
    std::vector<std::shared_ptr<Communicator>> communicators{comm};
    for (const auto& [color, key] : {std::pair{0, -comm->rank()}, std::pair{comm->rank() % 2, 0}}) {
      auto made = comm->split(color, key);
      ASSERT_TRUE(made.ok()) << made.status();
      communicators.push_back(*made);
    }
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < communicators.size(); ++i) {
      threads.emplace_back([&on = *communicators[i], i] {
        const std::vector<Step> steps = all_steps(on.size());
        std::mt19937 random(seed_of_run() + static_cast<unsigned>(i));
        for (int n = 0; n < 150; ++n) {
          const Step& step = steps[random() % steps.size()];
          const std::string what = testing::PrintToString(step);
          SCOPED_TRACE(what);
          OneCall call(on, step);
          const base::Status done = call.run();
          ASSERT_TRUE(done.ok()) << done;
          EXPECT_TRUE(call.is_untouched());
          if (n % 10 == 0) call.expect_right();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, ManyCommunicatorsTest,
                         testing::Values(std::vector{4}, std::vector{2, 2}, std::vector{3, 1}));

}  // namespace
}  // namespace muster::collectives::properties_test
