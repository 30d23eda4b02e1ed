// Every type and operation on every instruction set that this processor has, against the reference: in every bit.
#include "collectives/kernel/reduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "collectives/kernel/isa.h"
#include "tests/unit/collectives/kernel/reference.h"

namespace muster::collectives::reduce_test {
namespace {

using test::Bytes;
using test::reference;

constexpr std::byte kPoison{0xa5};
constexpr std::uint64_t kSeed = 20261122;

// Elements somewhere in memory, with poison before and after them.
class Placed {
 public:
  Placed(const Bytes& elements, std::size_t offset)
      : memory_(kMargin + offset + elements.size() + kMargin, kPoison),
        begin_(kMargin + offset),
        size_(elements.size()) {
    std::ranges::copy(elements, at());
  }
  std::byte* at() { return memory_.data() + begin_; }
  Bytes elements() const { return {memory_.begin() + index(begin_), memory_.begin() + index(begin_ + size_)}; }
  bool margins_are_whole() const {
    const auto is_poison = [](std::byte b) { return b == kPoison; };
    return std::all_of(memory_.begin(), memory_.begin() + index(begin_), is_poison) &&
           std::all_of(memory_.begin() + index(begin_ + size_), memory_.end(), is_poison);
  }

 private:
  static constexpr std::size_t kMargin = 128;
  static std::ptrdiff_t index(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  Bytes memory_;
  std::size_t begin_, size_;
};

struct Case {
  DType type;
  RedOp op;
  std::size_t k, count;
  Scale scale = {};
  Stores stores = Stores::kCached;
};

std::string describe(const Isa& isa, const Case& c) {
  return fmt::format("{} {} of {} x {} {}, scale {} {} / {}{}", isa.name, name_of(c.op), c.k, c.count, name_of(c.type),
                     c.scale.before, c.scale.after, c.scale.divisor,
                     c.stores == Stores::kStreaming ? ", streaming" : "");
}

std::vector<Bytes> random_inputs(const Case& c, std::mt19937_64& random) {
  std::vector<Bytes> inputs;
  for (std::size_t i = 0; i < c.k; ++i) inputs.push_back(test::random_elements(c.type, c.count, random));
  return inputs;
}

// Inputs and outputs at any alignment; `is_in_place`: output 0 is input 0, output 1 the last input.
void expect_reference(const Case& c, std::size_t n_outputs, bool is_in_place, std::mt19937_64& random) {
  const auto inputs = random_inputs(c, random);
  const Bytes expected = reference(c.type, c.op, inputs, c.scale);
  for (const Isa* isa : isas()) {
    std::vector<Placed> placed, results;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Bytes& input : inputs) placed.emplace_back(input, random() % 67);
    for (std::size_t i = 0; i < n_outputs; ++i) results.emplace_back(Bytes(expected.size(), kPoison), random() % 67);
    for (Placed& p : placed) from.push_back(p.at());
    for (Placed& p : results) to.push_back(p.at());
    if (is_in_place) to.front() = placed.front().at();
    if (is_in_place && n_outputs > 1) to.back() = placed.back().at();
    reduce_with(*isa, c.type, c.op, from, to, c.count, c.scale, c.stores);
    const auto where = describe(*isa, c);
    for (const void* output : to) {
      ASSERT_TRUE(expected.empty() || std::memcmp(output, expected.data(), expected.size()) == 0) << where;
    }
    for (const Placed& p : placed) ASSERT_TRUE(p.margins_are_whole()) << where;
    for (const Placed& p : results) ASSERT_TRUE(p.margins_are_whole()) << where;
    if (is_in_place) continue;
    for (std::size_t i = 0; i < c.k; ++i) ASSERT_EQ(placed[i].elements(), inputs[i]) << where;
  }
}

class Reduce : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  DType type() const { return static_cast<DType>(std::get<0>(GetParam())); }
  RedOp op() const { return static_cast<RedOp>(std::get<1>(GetParam())); }
  std::mt19937_64 random_{kSeed};
};

TEST_P(Reduce, IsTheReferenceForAnyNumberOfInputsAndElements) {
  for (std::size_t k = 1; k <= 9; ++k) {
    for (const std::size_t count : {0U, 1U, 2U, 15U, 33U, 64U, 259U}) {
      expect_reference({type(), op(), k, count}, 1, false, random_);
    }
  }
  expect_reference({type(), op(), 70, 131}, 1, false, random_);
  expect_reference({type(), op(), 3, 20011}, 1, false, random_);
}

TEST_P(Reduce, IsTheReferenceInPlaceAndToSeveralOutputs) {
  for (const std::size_t k : {1U, 2U, 3U, 4U, 9U}) {
    for (const Stores stores : {Stores::kCached, Stores::kStreaming}) {
      expect_reference({type(), op(), k, 777, {}, stores}, 1, true, random_);
      expect_reference({type(), op(), k, 777, {}, stores}, std::max<std::size_t>(k, 2), true, random_);
      expect_reference({type(), op(), k, 777, {}, stores}, 3, false, random_);
    }
  }
}

TEST_P(Reduce, IsTheReferenceWithScales) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Scale scales[] = {{0.5, 1, 1},         {1, 1. / 3, 1}, {1, 1, 2},    {1, 1, 3},        {1, 1, 49},
                          {1, 1, 4294967295U}, {-1.7, 1, 1},   {1, 1e30, 1}, {1e30, 1e-30, 1}, {0.25, 3, 8},
                          {1.5, -2.25, 7},     {kNan, 1, 1},   {1, kNan, 1}};
  for (const Scale scale : scales) {
    for (const std::size_t k : {1U, 2U, 5U}) expect_reference({type(), op(), k, 149U, scale}, 1U, false, random_);
  }
}

// Vectors that are aligned as caches want it, so that streaming is not left out.
TEST_P(Reduce, StreamsTheReference) {
  const Case c{type(), op(), 3, 5003};
  const auto inputs = random_inputs(c, random_);
  const Bytes expected = reference(c.type, c.op, inputs);
  const std::vector<const void*> from{inputs[0].data(), inputs[1].data(), inputs[2].data()};
  for (const Isa* isa : isas()) {
    for (const std::size_t offset : {0U, 8U, 40U}) {
      constexpr std::size_t kLine = 64;
      Bytes memory(2 * (expected.size() + 4 * kLine), kPoison);
      std::byte* first = memory.data() + kLine - reinterpret_cast<std::uintptr_t>(memory.data()) % kLine + offset;
      std::byte* second = first + (expected.size() / kLine + 2) * kLine;
      const std::vector<void*> to{first, second};
      reduce_with(*isa, c.type, c.op, from, to, c.count, {}, Stores::kStreaming);
      for (const std::byte* out : {first, second}) {
        EXPECT_EQ(std::memcmp(out, expected.data(), expected.size()), 0) << describe(*isa, c);
        EXPECT_EQ(*(out - 1), kPoison);
        EXPECT_EQ(*(out + expected.size()), kPoison);
      }
    }
  }
}

TEST_P(Reduce, DoesNotDependOnHowAVectorIsCut) {
  const Case c{type(), op(), 4, 3001, {.before = 0.75, .after = 1, .divisor = 5}};
  const auto inputs = random_inputs(c, random_);
  const std::size_t size = size_of(c.type);
  for (const Isa* isa : isas()) {
    Bytes whole(c.count * size), cut(c.count * size);
    std::vector<const void*> from;
    for (const Bytes& input : inputs) from.push_back(input.data());
    void* to = whole.data();
    reduce_with(*isa, c.type, c.op, from, {&to, 1}, c.count, c.scale, Stores::kCached);
    for (std::size_t at = 0; at < c.count;) {
      const std::size_t count = std::min<std::size_t>(1 + random_() % 200, c.count - at);
      std::vector<const void*> part;
      for (const Bytes& input : inputs) part.push_back(&input[at * size]);
      to = &cut[at * size];
      reduce_with(*isa, c.type, c.op, part, {&to, 1}, count, c.scale, Stores::kCached);
      at += count;
    }
    EXPECT_EQ(whole, cut) << describe(*isa, c);
  }
}

// The reference does as the kernels do; this bound does not.
class ReduceFloats : public Reduce {};

TEST_P(ReduceFloats, IsNearToWhatDoublesGive) {
  constexpr double kPrecision[] = {0x1p-11, 0x1p-8, 0x1p-24, 0x1p-53};
  std::uniform_real_distribution<double> values(0.5, 2);
  std::vector<Bytes> inputs;
  for (int i = 0; i < 7; ++i) {
    std::vector<double> of_one(100);
    for (double& value : of_one) value = values(random_);
    inputs.push_back(test::encoded(type(), of_one));
  }
  std::vector<long double> exact(100, op() == RedOp::kProd ? 1 : op() == RedOp::kMin ? 3 : 0);
  for (const Bytes& input : inputs) {
    const auto wide = test::decoded(type(), input);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (op() == RedOp::kProd) exact[i] *= wide[i];
      if (op() == RedOp::kSum || op() == RedOp::kAvg) exact[i] += wide[i];
      if (op() == RedOp::kMin) exact[i] = std::min<long double>(exact[i], wide[i]);
      if (op() == RedOp::kMax) exact[i] = std::max<long double>(exact[i], wide[i]);
    }
  }
  std::vector<const void*> from;
  for (const Bytes& input : inputs) from.push_back(input.data());
  Bytes out(inputs[0].size());
  reduce(type(), op(), from, out.data(), 100);
  const auto found = test::decoded(type(), out);
  // One rounding of the result, and for float32 and float64 one for each step.
  const double roundings = type() >= DType::kF32 ? 7 : 1.01;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(found[i], static_cast<double>(exact[i]),
                static_cast<double>(exact[i]) * kPrecision[static_cast<int>(type())] * roundings);
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<int, int>>& param) {
  const auto [type, op] = param.param;
  return fmt::format("{}_{}", name_of(static_cast<RedOp>(op)), name_of(static_cast<DType>(type)));
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::Combine(testing::Range(0, kDTypes), testing::Range(0, kRedOps)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Floats, ReduceFloats, testing::Combine(testing::Range(0, 4), testing::Range(0, kRedOps)),
                         name_of_case);

}  // namespace
}  // namespace muster::collectives::reduce_test
