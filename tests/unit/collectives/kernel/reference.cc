#include "tests/unit/collectives/kernel/reference.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace muster::collectives::test {
namespace {

// A binary floating point format of 16 bits.
struct Format {
  int fraction_bits;
  int bias;
};
constexpr Format kHalf{10, 15};
constexpr Format kBfloat{7, 127};

double decode(Format format, std::uint16_t bits) {
  const int exponent_bits = 15 - format.fraction_bits;
  const int exponent = (bits >> format.fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  double magnitude = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else {
    const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
    magnitude = std::ldexp(whole, (exponent == 0 ? 1 : exponent) - format.bias - format.fraction_bits);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::uint16_t encode(Format format, double value) {
  const int infinity = (0x8000 >> format.fraction_bits) - 1;
  if (std::isnan(value))
    return static_cast<std::uint16_t>((infinity << format.fraction_bits) | (1 << (format.fraction_bits - 1)));
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int exponent = std::isinf(value) ? infinity : std::max(std::ilogb(magnitude) + format.bias, 1);
  if (exponent >= infinity) return static_cast<std::uint16_t>(sign | (infinity << format.fraction_bits));
  // The fraction with its leading 1; if it is rounded up to the next power of two, the sum carries into the exponent.
  const double fraction = std::nearbyint(std::ldexp(magnitude, format.bias + format.fraction_bits - exponent));
  const int bits = ((exponent - 1) << format.fraction_bits) + static_cast<int>(fraction);
  return static_cast<std::uint16_t>(sign | bits);
}

template <class Real>
Real join(RedOp op, Real a, Real b) {
  const bool is_nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case RedOp::kMin:
      return is_nan ? std::numeric_limits<Real>::quiet_NaN() : (b < a ? b : a);
    case RedOp::kMax:
      return is_nan ? std::numeric_limits<Real>::quiet_NaN() : (b > a ? b : a);
    case RedOp::kProd:
      return a * b;
    default:
      return a + b;
  }
}

template <class Real>
Real reduce_real(RedOp op, const std::vector<Real>& column, Scale scale) {
  const auto before = static_cast<Real>(scale.before);
  Real result = column[0] * before;
  for (std::size_t i = 1; i < column.size(); ++i) result = join<Real>(op, result, column[i] * before);
  if (std::has_single_bit(scale.divisor)) {
    result *= static_cast<Real>(scale.after / scale.divisor);
  } else {
    result = result * static_cast<Real>(scale.after) / static_cast<Real>(scale.divisor);
  }
  return std::isnan(result) ? std::numeric_limits<Real>::quiet_NaN() : result;
}

template <class T>
T truncated(double value) {
  if (std::isnan(value)) return 0;
  if (value >= std::ldexp(1.0, std::numeric_limits<T>::digits)) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(std::trunc(value));
}

template <class T>
T reduce_whole(RedOp op, std::vector<T> column, Scale scale) {
  if (scale.before != 1) {
    for (T& element : column) element = truncated<T>(static_cast<double>(element) * scale.before);
  }
  T result = column[0];
  for (std::size_t i = 1; i < column.size(); ++i) {
    const auto a = static_cast<std::uint64_t>(result);
    const auto b = static_cast<std::uint64_t>(column[i]);
    if (op == RedOp::kMin) {
      result = std::min(result, column[i]);
    } else if (op == RedOp::kMax) {
      result = std::max(result, column[i]);
    } else {
      result = static_cast<T>(op == RedOp::kProd ? a * b : a + b);
    }
  }
  if (scale.after != 1) return truncated<T>(static_cast<double>(result) * scale.after / scale.divisor);
  return static_cast<T>(static_cast<std::int64_t>(result) / static_cast<std::int64_t>(scale.divisor));
}

std::uint8_t reduce_bool(RedOp op, const std::vector<std::uint8_t>& column) {
  const bool is_and = op == RedOp::kProd || op == RedOp::kMin;
  bool result = column[0] != 0;
  for (const std::uint8_t element : column) result = is_and ? result && element != 0 : result || element != 0;
  return result ? 1 : 0;
}

template <class T, class Function>
Bytes by_column(const std::vector<Bytes>& inputs, Function function) {
  const std::size_t count = inputs[0].size() / sizeof(T);
  Bytes out(count * sizeof(T));
  std::vector<T> column(inputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k) std::memcpy(&column[k], &inputs[k][i * sizeof(T)], sizeof(T));
    const T result = function(column);
    std::memcpy(&out[i * sizeof(T)], &result, sizeof(T));
  }
  return out;
}

Bytes by_format(Format format, RedOp op, const std::vector<Bytes>& inputs, Scale scale) {
  return by_column<std::uint16_t>(inputs, [&](const std::vector<std::uint16_t>& column) {
    std::vector<float> wide;
    for (const std::uint16_t bits : column) wide.push_back(static_cast<float>(decode(format, bits)));
    return encode(format, reduce_real<float>(op, wide, scale));
  });
}

template <class T>
Bytes of_whole(RedOp op, const std::vector<Bytes>& inputs, Scale scale) {
  return by_column<T>(inputs, [&](const std::vector<T>& column) { return reduce_whole<T>(op, column, scale); });
}

template <class Real>
Bytes of_real(RedOp op, const std::vector<Bytes>& inputs, Scale scale) {
  return by_column<Real>(inputs, [&](const std::vector<Real>& column) { return reduce_real<Real>(op, column, scale); });
}

template <class T>
void append(Bytes& to, T element) {
  const auto* begin = reinterpret_cast<const std::byte*>(&element);
  to.insert(to.end(), begin, begin + sizeof(T));
}

template <class T>
double element_at(const Bytes& elements, std::size_t at) {
  T element;
  std::memcpy(&element, &elements[at], sizeof(T));
  return static_cast<double>(element);
}

}  // namespace

Bytes reference(DType type, RedOp op, const std::vector<Bytes>& inputs, Scale scale) {
  switch (type) {
    case DType::kF16:
      return by_format(kHalf, op, inputs, scale);
    case DType::kBF16:
      return by_format(kBfloat, op, inputs, scale);
    case DType::kF32:
      return of_real<float>(op, inputs, scale);
    case DType::kF64:
      return of_real<double>(op, inputs, scale);
    case DType::kI8:
      return of_whole<std::int8_t>(op, inputs, scale);
    case DType::kU8:
      return of_whole<std::uint8_t>(op, inputs, scale);
    case DType::kI16:
      return of_whole<std::int16_t>(op, inputs, scale);
    case DType::kI32:
      return of_whole<std::int32_t>(op, inputs, scale);
    case DType::kI64:
      return of_whole<std::int64_t>(op, inputs, scale);
    case DType::kBool:
      return by_column<std::uint8_t>(inputs, [&](const auto& column) { return reduce_bool(op, column); });
  }
  return {};
}

std::vector<double> decoded(DType type, const Bytes& elements) {
  std::vector<double> out;
  for (std::size_t at = 0; at < elements.size(); at += size_of(type)) {
    switch (type) {
      case DType::kF16:
      case DType::kBF16: {
        const auto bits = static_cast<std::uint16_t>(element_at<std::uint16_t>(elements, at));
        out.push_back(decode(type == DType::kF16 ? kHalf : kBfloat, bits));
        break;
      }
      case DType::kF32:
        out.push_back(element_at<float>(elements, at));
        break;
      case DType::kF64:
        out.push_back(element_at<double>(elements, at));
        break;
      case DType::kI8:
        out.push_back(element_at<std::int8_t>(elements, at));
        break;
      case DType::kU8:
      case DType::kBool:
        out.push_back(element_at<std::uint8_t>(elements, at));
        break;
      case DType::kI16:
        out.push_back(element_at<std::int16_t>(elements, at));
        break;
      case DType::kI32:
        out.push_back(element_at<std::int32_t>(elements, at));
        break;
      case DType::kI64:
        out.push_back(element_at<std::int64_t>(elements, at));
        break;
    }
  }
  return out;
}

Bytes encoded(DType type, std::span<const double> values) {
  Bytes out;
  for (const double value : values) {
    switch (type) {
      case DType::kF16:
        append(out, encode(kHalf, value));
        break;
      case DType::kBF16:
        append(out, encode(kBfloat, value));
        break;
      case DType::kF32:
        append(out, static_cast<float>(value));
        break;
      case DType::kF64:
        append(out, value);
        break;
      case DType::kI8:
        append(out, truncated<std::int8_t>(value));
        break;
      case DType::kU8:
      case DType::kBool:
        append(out, truncated<std::uint8_t>(value));
        break;
      case DType::kI16:
        append(out, truncated<std::int16_t>(value));
        break;
      case DType::kI32:
        append(out, truncated<std::int32_t>(value));
        break;
      case DType::kI64:
        append(out, truncated<std::int64_t>(value));
        break;
    }
  }
  return out;
}

Bytes random_elements(DType type, std::size_t count, std::mt19937_64& random) {
  std::vector<double> moderate(count);
  std::uniform_real_distribution<double> values(-100, 100);
  for (double& value : moderate) value = values(random);
  Bytes out = encoded(type, moderate);
  const std::size_t size = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    if ((random() & 1) != 0) std::memcpy(&out[i * size], &bits, size);
  }
  return out;
}

}  // namespace muster::collectives::test
