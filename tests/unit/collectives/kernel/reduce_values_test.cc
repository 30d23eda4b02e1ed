// Single values with something to say, modes of the processor, and copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collectives/kernel/isa.h"
#include "collectives/kernel/reduce.h"
#include "tests/unit/collectives/kernel/reference.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace muster::collectives::reduce_values_test {
namespace {

using test::Bytes;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

Bytes reduce_values(const Isa& isa, DType type, RedOp op, const std::vector<double>& values, Scale scale = {}) {
  std::vector<Bytes> inputs;
  std::vector<const void*> from;
  for (const double value : values) inputs.push_back(test::encoded(type, {&value, 1}));
  for (const Bytes& input : inputs) from.push_back(input.data());
  Bytes out(size_of(type));
  void* to = out.data();
  reduce_with(isa, type, op, from, {&to, 1}, 1, scale, Stores::kCached);
  return out;
}

double reduced(const Isa& isa, DType type, RedOp op, const std::vector<double>& values, Scale scale = {}) {
  return test::decoded(type, reduce_values(isa, type, op, values, scale)).front();
}

class Values : public testing::TestWithParam<const Isa*> {
 protected:
  const Isa& isa() const { return *GetParam(); }
};

TEST_P(Values, NanIsNotLost) {
  for (const DType type : kFloats) {
    for (const RedOp op : {RedOp::kSum, RedOp::kMin, RedOp::kMax, RedOp::kProd}) {
      for (const auto& values :
           {std::vector<double>{kNan, 1, 2}, {1, kNan, 2}, {1, 2, kNan}, {kNan, kNan, kNan}, {-kNan, 1}}) {
        EXPECT_EQ(reduce_values(isa(), type, op, values), test::encoded(type, {&kNan, 1}))
            << name_of(type) << name_of(op);
      }
    }
    EXPECT_TRUE(std::isnan(reduced(isa(), type, RedOp::kSum, {kInfinity, -kInfinity})));
  }
}

TEST_P(Values, InfinitiesAndOverflow) {
  for (const DType type : kFloats) {
    EXPECT_EQ(reduced(isa(), type, RedOp::kSum, {kInfinity, 1}), kInfinity);
    EXPECT_EQ(reduced(isa(), type, RedOp::kMin, {kInfinity, -kInfinity, 0}), -kInfinity);
  }
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {65504, 15}), 65504);
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {65504, 16}), kInfinity);  // half way: to even, which is beyond
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {65504, 65504, -65504}), 65504);  // rounded once
  EXPECT_EQ(reduced(isa(), DType::kBF16, RedOp::kSum, {0x1.fep127, 0x1p119}), kInfinity);
}

TEST_P(Values, TiesGoToEven) {
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {2048, 1}), 2048);
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {2050, 1}), 2052);
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {2048, 1, 0.0625}), 2050);
  EXPECT_EQ(reduced(isa(), DType::kBF16, RedOp::kSum, {256, 1}), 256);
  EXPECT_EQ(reduced(isa(), DType::kBF16, RedOp::kSum, {258, 1}), 260);
}

TEST_P(Values, DenormalsAreKept) {
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kSum, {0x1p-24, 0x1p-24, 0x1p-24}), 0x1.8p-23);
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kProd, {0x1p-12, 0x1p-12}), 0x1p-24);
  EXPECT_EQ(reduced(isa(), DType::kF16, RedOp::kProd, {0x1p-13, 0x1p-12}), 0);  // half of the least: to even
  EXPECT_EQ(reduced(isa(), DType::kBF16, RedOp::kSum, {0x1p-133, 0x1p-133}), 0x1p-132);
  EXPECT_EQ(reduced(isa(), DType::kF32, RedOp::kSum, {0x1p-149, 0x1p-149}), 0x1p-148);
  EXPECT_EQ(reduced(isa(), DType::kF64, RedOp::kSum, {0x1p-1074, 0x1p-1074}), 0x1p-1073);
}

TEST_P(Values, OfEqualZerosTheFirst) {
  for (const DType type : kFloats) {
    for (const RedOp op : {RedOp::kMin, RedOp::kMax}) {
      EXPECT_TRUE(std::signbit(reduced(isa(), type, op, {-0.0, 0.0})));
      EXPECT_FALSE(std::signbit(reduced(isa(), type, op, {0.0, -0.0})));
    }
    EXPECT_TRUE(std::signbit(reduced(isa(), type, RedOp::kSum, {-0.0, -0.0})));
  }
}

TEST_P(Values, IntegersWrap) {
  EXPECT_EQ(reduced(isa(), DType::kI8, RedOp::kSum, {127, 1}), -128);
  EXPECT_EQ(reduced(isa(), DType::kU8, RedOp::kSum, {255, 2}), 1);
  EXPECT_EQ(reduced(isa(), DType::kI16, RedOp::kProd, {300, 300}), 24464);
  EXPECT_EQ(reduced(isa(), DType::kI32, RedOp::kSum, {2147483647, 1}), -2147483648.0);
  EXPECT_EQ(reduced(isa(), DType::kI64, RedOp::kProd, {0x1p62, 2}), -0x1p63);
}

TEST_P(Values, IntegersAreDividedTowardsZeroAndScaledWithSaturation) {
  EXPECT_EQ(reduced(isa(), DType::kI64, RedOp::kAvg, std::vector<double>(49, 1), {.divisor = 49}), 1);
  EXPECT_EQ(reduced(isa(), DType::kI32, RedOp::kAvg, {-7, 0}, {.divisor = 2}), -3);
  EXPECT_EQ(reduced(isa(), DType::kI8, RedOp::kSum, {100}, {.after = 2}), 127);
  EXPECT_EQ(reduced(isa(), DType::kI8, RedOp::kSum, {-100}, {.after = 2}), -128);
  EXPECT_EQ(reduced(isa(), DType::kU8, RedOp::kSum, {100}, {.before = -1}), 0);
  EXPECT_EQ(reduced(isa(), DType::kI64, RedOp::kSum, {0x1p62}, {.after = 4}), 0x1p63);  // int64's largest, rounded
  EXPECT_EQ(reduced(isa(), DType::kI16, RedOp::kSum, {5}, {.after = kNan}), 0);
}

TEST_P(Values, BoolsAreZeroAndOne) {
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kSum, {0, 0}), 0);
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kSum, {0, 7}), 1);
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kMax, {128, 1}), 1);
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kProd, {2, 1}), 1);
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kMin, {2, 0}), 0);
  EXPECT_EQ(reduced(isa(), DType::kBool, RedOp::kSum, {2}), 1);
}

TEST_P(Values, EveryFloatOf16BitsComesThroughUnchanged) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    std::vector<std::uint16_t> all(65536), out(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    const void* from = all.data();
    void* to = out.data();
    reduce_with(isa(), type, RedOp::kSum, {&from, 1}, {&to, 1}, all.size(), {}, Stores::kCached);
    const std::uint16_t infinity = type == DType::kF16 ? 0x7c00 : 0x7f80;
    const std::uint16_t nan = type == DType::kF16 ? 0x7e00 : 0x7fc0;
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(out[i], (i & 0x7fff) > infinity ? nan : all[i]);
  }
}

#if defined(__SSE2__)
TEST_P(Values, DoNotDependOnTheCallersModes) {
  constexpr unsigned kFlushBothAndRoundUp = 0x8000 | 0x0040 | 0x4000 | 0x1f80;
  const float large[2] = {0x1p-149F, 1};
  const float small[2] = {0x1p-149F, 0x1p-30F};
  const void* const from[2] = {large, small};
  float out[2] = {};
  void* const to = out;
  const unsigned callers = _mm_getcsr();
  _mm_setcsr(kFlushBothAndRoundUp);
  reduce_with(isa(), DType::kF32, RedOp::kSum, from, {&to, 1}, 2, {}, Stores::kCached);
  const unsigned after = _mm_getcsr() & ~0x3fU;
  _mm_setcsr(callers);
  EXPECT_EQ(out[0], 0x1p-148F);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(after, kFlushBothAndRoundUp);
}
#endif

TEST_P(Values, CopiesAnySizeToAnyAddress) {
  std::mt19937_64 random(1);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 255U, 256U, 1000U, 70001U}) {
    for (std::size_t offset = 0; offset < 70; offset += 7) {
      const Bytes from = test::random_elements(DType::kU8, bytes + 9, random);
      Bytes to(bytes + 200, std::byte{0x5a});
      isa().copy_streaming(&to[offset + 1], from.data() + 9, bytes);
      ASSERT_TRUE(std::equal(from.begin() + 9, from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset) + 1));
      ASSERT_EQ(to[offset], std::byte{0x5a});
      ASSERT_EQ(to[offset + 1 + bytes], std::byte{0x5a});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Values, testing::ValuesIn(isas().begin(), isas().end()),
                         [](const auto& param) { return std::string(param.param->name); });

}  // namespace
}  // namespace muster::collectives::reduce_values_test
