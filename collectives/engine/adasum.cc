#include "collectives/engine/adasum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace muster::collectives::inline engine {
namespace {

// The tag of messages. Any value works, because nothing else sends messages on this communicator.
constexpr int kTag = 0;

// The two vectors, converted to float32 or float64 for the computation.
template <typename Real>
struct Pair {
  std::vector<Real> own;
  std::vector<Real> peer;
};

// `lower` belongs to the rank with the smaller number, so that both ranks compute the same bits.
template <typename Real>
void combine(const Real* lower, const Real* upper, Real* out, std::size_t count) {
  double dot = 0;
  double lower_square = 0;
  double upper_square = 0;
  for (std::size_t i = 0; i < count; ++i) {
    dot += static_cast<double>(lower[i]) * static_cast<double>(upper[i]);
    lower_square += static_cast<double>(lower[i]) * static_cast<double>(lower[i]);
    upper_square += static_cast<double>(upper[i]) * static_cast<double>(upper[i]);
  }
  const auto lower_share = static_cast<Real>(lower_square == 0 ? 1 : 1 - dot / (2 * lower_square));
  const auto upper_share = static_cast<Real>(upper_square == 0 ? 1 : 1 - dot / (2 * upper_square));
  for (std::size_t i = 0; i < count; ++i) out[i] = lower[i] * lower_share + upper[i] * upper_share;
}

template <typename Real>
base::Status reduce_pairs(Communicator& comm, Pair<Real>& vectors, DType type) {
  const std::size_t count = vectors.own.size();
  for (int distance = 1; distance < comm.size(); distance *= 2) {
    const int peer = comm.rank() ^ distance;
    const auto sent = comm.start_send(vectors.own.data(), count, type, peer, kTag);
    const base::Status received = comm.receive(vectors.peer.data(), count, type, peer, kTag);
    const base::Status is_sent = sent->wait();
    MUSTER_RETURN_IF_ERROR(received);
    MUSTER_RETURN_IF_ERROR(is_sent);
    const bool is_lower = comm.rank() < peer;
    const Real* const lower = is_lower ? vectors.own.data() : vectors.peer.data();
    const Real* const upper = is_lower ? vectors.peer.data() : vectors.own.data();
    combine(lower, upper, vectors.own.data(), count);
  }
  return base::ok_status();
}

// Widens a 16-bit float by its definition, because the kernels do not convert types. IEEE 754 binary16 has 1 sign bit,
// 5 exponent bits and 10 fraction bits. bfloat16 is the upper half of a float32.
float widened(std::uint16_t bits, DType type) {
  if (type == DType::kBF16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ff);
  if (exponent == 0x1f) return fraction != 0 ? std::nanf("") : sign * HUGE_VALF;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Rounds to nearest, ties to even.
std::uint16_t narrowed_half(float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value)) return 0x7e00;
  const float size = std::abs(value);
  if (size >= 65520) return sign | 0x7c00;  // values that would round to 2^16 or more become infinity
  // Count in steps of the fraction's last bit; nearbyint rounds ties to even.
  const int exponent = std::max(size == 0 ? -14 : std::ilogb(size), -14);
  const auto steps = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // 1024 steps are the hidden bit. If rounding gives 2048 steps, the carry increments the exponent.
  return static_cast<std::uint16_t>(sign | (static_cast<std::uint32_t>(exponent + 14) * 1024 + steps));
}

std::uint16_t narrowed(float value, DType type) {
  if (type == DType::kF16) return narrowed_half(value);
  if (std::isnan(value)) return 0x7fc0;
  auto word = std::bit_cast<std::uint32_t>(value);
  word += 0x7fff + (word >> 16 & 1);  // rounds to nearest, ties to even
  return static_cast<std::uint16_t>(word >> 16);
}

void load(const void* in, DType type, std::vector<float>& into) {
  if (type == DType::kF32) {
    if (!into.empty()) std::memcpy(into.data(), in, into.size() * sizeof(float));
    return;
  }
  const auto* const bits = static_cast<const std::uint16_t*>(in);
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = widened(bits[i], type);
}

void store(const std::vector<float>& from, DType type, void* out) {
  if (type == DType::kF32) {
    if (!from.empty()) std::memcpy(out, from.data(), from.size() * sizeof(float));
    return;
  }
  auto* const bits = static_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < from.size(); ++i) bits[i] = narrowed(from[i], type);
}

template <typename Real>
void multiply(std::vector<Real>& vector, double by) {
  if (by == 1) return;
  for (Real& element : vector) element *= static_cast<Real>(by);
}

}  // namespace

base::Status adasum(Communicator& comm, const void* in, void* out, std::size_t count, DType type, Scale scale) {
  if (type == DType::kF64) {
    Pair<double> vectors{std::vector<double>(count), std::vector<double>(count)};
    if (count > 0) std::memcpy(vectors.own.data(), in, count * sizeof(double));
    multiply(vectors.own, scale.before);
    MUSTER_RETURN_IF_ERROR(reduce_pairs(comm, vectors, DType::kF64));
    multiply(vectors.own, scale.after);
    if (count > 0) std::memcpy(out, vectors.own.data(), count * sizeof(double));
    return base::ok_status();
  }
  Pair<float> vectors{std::vector<float>(count), std::vector<float>(count)};
  load(in, type, vectors.own);
  multiply(vectors.own, scale.before);
  MUSTER_RETURN_IF_ERROR(reduce_pairs(comm, vectors, DType::kF32));
  multiply(vectors.own, scale.after);
  store(vectors.own, type, out);
  return base::ok_status();
}

}  // namespace muster::collectives::engine
