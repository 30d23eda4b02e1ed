// The kernels' bodies, run on the host: every element is moved once, whatever sizes and alignments; values are those of
// float64 references and of libmuster's kernels for the processor. (No GPU takes part: what it does with the same
// bodies is tested by tests/gpu/run.)
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/kernel/reduce.h"
#include "tests/unit/collectives/device/host_kernels.h"

namespace muster::collectives::device::kernels_test {
namespace {

constexpr std::uint8_t kPoison = 0xa5;

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uint64_t>(data);
}
std::uint32_t units_of(std::size_t elements) {
  return static_cast<std::uint32_t>((elements + kUnitElements - 1) / kUnitElements);
}

// Memory with `offset` bytes before the elements, and poison around and in it.
class Poisoned {
 public:
  Poisoned(std::size_t bytes, std::size_t offset) : offset_(offset), bytes_(bytes), memory_(bytes + 128, kPoison) {}
  std::uint8_t* data() { return memory_.data() + base() + offset_; }
  bool has_poison_around() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool is_inside = i >= base() + offset_ && i < base() + offset_ + bytes_;
      if (!is_inside && memory_[i] != kPoison) return false;
    }
    return true;
  }

 private:
  std::size_t base() const { return (64 - address_of(memory_.data()) % 64) % 64; }
  std::size_t offset_, bytes_;
  std::vector<std::uint8_t> memory_;
};

TEST(DeviceConversions, HalvesAreRoundedAsTheProcessorsKernelsRoundThem) {
  // Every float16 there is goes to float32 and back; what lies between two goes where libmuster's own kernels put it.
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_nan = (half & 0x7fffU) > 0x7c00U;
    if (is_nan) {
      EXPECT_TRUE(std::isnan(half_to_float(half)));
    } else {
      ASSERT_EQ(float_to_half(half_to_float(half)), half) << bits;
    }
  }
  std::mt19937 random(20261123);
  for (int i = 0; i < 200'000; ++i) {
    // The exact sum of two halves, rounded once.
    const auto a = static_cast<std::uint16_t>(random() & 0xfbffU & ~0x0400U);
    const auto b = static_cast<std::uint16_t>(random() & 0xfbffU & ~0x0400U);
    const std::uint16_t in[2] = {a, b};
    const void* const inputs[2] = {&in[0], &in[1]};
    std::uint16_t expected = 0;
    collectives::reduce(DType::kF16, RedOp::kSum, inputs, &expected, 1);
    ASSERT_EQ(float_to_half(half_to_float(a) + half_to_float(b)), expected) << a << " + " << b;
    collectives::reduce(DType::kBF16, RedOp::kSum, inputs, &expected, 1);
    const float sum = widen(Bfloat{a}) + widen(Bfloat{b});
    if (!std::isnan(sum)) {
      ASSERT_EQ(float_to_bfloat(sum), expected) << a << " + " << b;
    }
  }
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_half(-0.0F), 0x8000);
  EXPECT_EQ(float_to_half(0x1p-25F), 0);
  EXPECT_EQ(float_to_half(0x1.8p-25F), 1);
}

struct TransferCase {
  std::size_t from_offset, to_offset;  // bytes
};

class DeviceTransfer : public testing::TestWithParam<TransferCase> {};

template <class From, class To, class Expect>
void check_transfer(const char* name, TransferCase given, double scale, const Expect& expect) {
  std::mt19937 random(7);
  const std::vector<std::size_t> sizes{
      1, 3, 16, 17, 255, 1000, kUnitElements, kUnitElements + 1, 3 * kUnitElements - 5};
  std::vector<Poisoned> sources;
  std::vector<Poisoned> targets;
  Transfer<kFewSegments> table{.scale = scale, .count = 0, .padding = 0, .segments = {}};
  std::uint32_t units = 0;
  for (const std::size_t size : sizes) {
    sources.emplace_back(size * sizeof(From), given.from_offset * sizeof(From));
    targets.emplace_back(size * sizeof(To), given.to_offset * sizeof(To));
    for (std::size_t i = 0; i < size * sizeof(From); ++i) {
      sources.back().data()[i] = static_cast<std::uint8_t>(random() & 0x3f);  // neither NaN nor infinity
    }
    table.segments[table.count++] = {address_of(sources.back().data()), address_of(targets.back().data()), size, units};
    units += units_of(size);
  }
  ASSERT_TRUE(run_on_host(std::string("muster_transfer_") + name + "_few", units, &table));
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    EXPECT_TRUE(targets[s].has_poison_around()) << name << ", " << sizes[s];
    for (std::size_t i = 0; i < sizes[s]; ++i) {
      From from;
      To to;
      std::memcpy(&from, sources[s].data() + i * sizeof from, sizeof from);
      std::memcpy(&to, targets[s].data() + i * sizeof to, sizeof to);
      ASSERT_TRUE(expect(from, to)) << name << ": element " << i << " of " << sizes[s];
    }
  }
}

template <class T>
bool is_same(T from, T to) {
  return from == to;
}

TEST_P(DeviceTransfer, CopiesEveryElementOnceAndNothingElse) {
  check_transfer<std::uint8_t, std::uint8_t>("copy1", GetParam(), 1, is_same<std::uint8_t>);
  check_transfer<std::uint16_t, std::uint16_t>("copy2", GetParam(), 1, is_same<std::uint16_t>);
  check_transfer<std::uint32_t, std::uint32_t>("copy4", GetParam(), 1, is_same<std::uint32_t>);
  check_transfer<std::uint64_t, std::uint64_t>("copy8", GetParam(), 1, is_same<std::uint64_t>);
}

TEST_P(DeviceTransfer, ScalesAndCastsWithOneRounding) {
  const double scale = 1.0 / 3;
  const auto third = static_cast<float>(scale);
  check_transfer<float, float>("float32_float32", GetParam(), scale, [&](float a, float b) { return b == a * third; });
  check_transfer<double, double>("float64_float64", GetParam(), scale,
                                 [&](double a, double b) { return b == a * scale; });
  check_transfer<float, Half>("float32_float16", GetParam(), scale,
                              [&](float a, Half b) { return b.bits == float_to_half(a * third); });
  check_transfer<float, Bfloat>("float32_bfloat16", GetParam(), scale,
                                [&](float a, Bfloat b) { return b.bits == float_to_bfloat(a * third); });
  check_transfer<Half, float>("float16_float32", GetParam(), scale,
                              [&](Half a, float b) { return b == widen(a) * third; });
  check_transfer<Bfloat, float>("bfloat16_float32", GetParam(), scale,
                                [&](Bfloat a, float b) { return b == widen(a) * third; });
  check_transfer<Half, Half>("float16_float16", GetParam(), scale,
                             [&](Half a, Half b) { return b.bits == float_to_half(widen(a) * third); });
  check_transfer<Bfloat, Bfloat>("bfloat16_bfloat16", GetParam(), scale,
                                 [&](Bfloat a, Bfloat b) { return b.bits == float_to_bfloat(widen(a) * third); });
}

INSTANTIATE_TEST_SUITE_P(Offsets, DeviceTransfer,
                         testing::Values(TransferCase{0, 0}, TransferCase{1, 1}, TransferCase{3, 3}, TransferCase{0, 1},
                                         TransferCase{5, 2}));

template <int kCapacity>
void check_full_table(const char* name) {
  std::vector<float> from(kCapacity, 2.5F);
  std::vector<float> to(kCapacity, -1.0F);
  auto table = std::make_unique<Transfer<kCapacity>>();
  table->scale = 2;
  table->count = kCapacity;
  for (std::size_t i = 0; i < kCapacity; ++i) {
    table->segments[i] = {i % 2 == 0 ? address_of(&from[i]) : 0, address_of(&to[i]), 1, i};
  }
  ASSERT_TRUE(run_on_host(name, kCapacity, table.get()));
  for (std::size_t i = 0; i < kCapacity; ++i) ASSERT_EQ(to[i], i % 2 == 0 ? 5.0F : 0.0F) << i;
}

TEST(DeviceTransfers, ManySegmentsWithZerosForThoseThatHaveNoSource) {
  check_full_table<kSomeSegments>("muster_transfer_float32_float32_some");
  check_full_table<kManySegments>("muster_transfer_float32_float32_many");
}

// As Kernels::load() launches each of them once.
TEST(DeviceKernels, NothingIsTouchedWhereThereIsNothingToDo) {
  auto table = std::make_unique<Transfer<kManySegments>>();
  table->count = 1;
  Reduction call{};
  call.divisor = 1;
  call.inputs = 1;
  for (const char* const name : {"copy1", "copy8", "float32_float16", "bfloat16_float32"}) {
    for (const char* const size : {"few", "some", "many"}) {
      EXPECT_TRUE(run_on_host(fmt::format("muster_transfer_{}_{}", name, size), 1, table.get()));
    }
  }
  for (const char* const name : {"float32", "bfloat16", "int8", "bool"}) {
    EXPECT_TRUE(run_on_host(fmt::format("muster_reduce_{}", name), 1, &call));
  }
}

// Against the kernels for the processor, which have their own tests against float64.
template <class T>
void check_reduce(const char* name, DType type, std::size_t offset, std::uint32_t ranks, Scale scale) {
  std::mt19937 random(11);
  for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMin, RedOp::kMax, RedOp::kProd}) {
    if (type == DType::kBool && op == RedOp::kAvg) continue;
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{17}, std::size_t{1003}, std::size_t{kUnitElements + 7}}) {
      std::vector<Poisoned> inputs;
      std::vector<Poisoned> outputs;
      std::vector<const void*> pointers;
      Reduction call{};
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        inputs.emplace_back(count * sizeof(T), offset * sizeof(T));
        outputs.emplace_back(count * sizeof(T), offset * sizeof(T));
        for (std::size_t i = 0; i < count * sizeof(T); ++i) {
          inputs.back().data()[i] = static_cast<std::uint8_t>(random() & 0x3f);
        }
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        pointers.push_back(inputs[rank].data());
        call.in[rank] = address_of(inputs[rank].data());
        call.out[rank] = address_of(outputs[rank].data());
      }
      Scale wanted = scale;
      if (op == RedOp::kAvg) wanted.divisor = ranks;
      call.count = count;
      call.before = wanted.before;
      call.after = wanted.after;
      call.divisor = wanted.divisor;
      call.op = static_cast<std::uint32_t>(op == RedOp::kAvg ? RedOp::kSum : op);
      call.inputs = call.outputs = ranks;
      ASSERT_TRUE(run_on_host(std::string("muster_reduce_") + name, units_of(count), &call));
      std::vector<std::uint8_t> expected(count * sizeof(T));
      collectives::reduce(type, op, pointers, expected.data(), count, wanted);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        ASSERT_TRUE(outputs[rank].has_poison_around()) << name << ", " << count;
        ASSERT_EQ(std::memcmp(outputs[rank].data(), expected.data(), expected.size()), 0)
            << name << ", " << name_of(op) << ", " << count << " elements, " << ranks << " ranks";
      }
    }
  }
}

class DeviceReduce : public testing::TestWithParam<std::tuple<std::size_t, std::uint32_t, double>> {};

TEST_P(DeviceReduce, GivesTheBitsOfTheProcessorsKernels) {
  const auto [offset, ranks, factor] = GetParam();
  const Scale scale{.before = factor, .after = factor == 1 ? 1.0 : 3.0, .divisor = 1};
  check_reduce<std::uint16_t>("float16", DType::kF16, offset, ranks, scale);
  check_reduce<std::uint16_t>("bfloat16", DType::kBF16, offset, ranks, scale);
  check_reduce<float>("float32", DType::kF32, offset, ranks, scale);
  check_reduce<double>("float64", DType::kF64, offset, ranks, scale);
  check_reduce<std::int8_t>("int8", DType::kI8, offset, ranks, scale);
  check_reduce<std::uint8_t>("uint8", DType::kU8, offset, ranks, scale);
  check_reduce<std::int16_t>("int16", DType::kI16, offset, ranks, scale);
  check_reduce<std::int32_t>("int32", DType::kI32, offset, ranks, scale);
  check_reduce<std::int64_t>("int64", DType::kI64, offset, ranks, scale);
  check_reduce<std::uint8_t>("bool", DType::kBool, offset, ranks, scale);
}

INSTANTIATE_TEST_SUITE_P(Shapes, DeviceReduce,
                         testing::Combine(testing::Values<std::size_t>(0, 3),
                                          testing::Values<std::uint32_t>(1, 2, 3, 8), testing::Values(1.0, 0.7)));

TEST(DeviceReduces, InPlaceAndWithFloat64Reference) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1, 1);
  constexpr std::size_t kCount = 2 * kUnitElements + 33;
  std::vector<std::vector<float>> ranks(4, std::vector<float>(kCount));
  std::vector<double> expected(kCount);
  for (auto& rank : ranks) {
    for (std::size_t i = 0; i < kCount; ++i) expected[i] += rank[i] = values(random);
  }
  Reduction call{};
  for (std::size_t rank = 0; rank < 4; ++rank) call.in[rank] = call.out[rank] = address_of(ranks[rank].data());
  call.count = kCount;
  call.before = call.after = 1;
  call.divisor = 1;
  call.inputs = call.outputs = 4;
  ASSERT_TRUE(run_on_host("muster_reduce_float32", units_of(kCount), &call));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(ranks[0][i], expected[i], 4 * std::numeric_limits<float>::epsilon()) << i;
    for (const auto& rank : ranks) ASSERT_EQ(rank[i], ranks[0][i]);
  }
}

}  // namespace
}  // namespace muster::collectives::device::kernels_test
