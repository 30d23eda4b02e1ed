#include "proto/output_frame.h"

#include "base/little_endian.h"

namespace muster::proto {
namespace {

struct Limits {
  std::size_t min;
  std::size_t max;
};

// Returns the limits of the payload of a kind. For an unknown kind returns {1, 0}, which no size satisfies.
Limits payload_limits(std::uint8_t kind) {
  switch (static_cast<OutputKind>(kind)) {
    case OutputKind::kData:
      return {1, kMaxOutputPayload};
    case OutputKind::kEnd:
      return {16, 16};
    case OutputKind::kGap:
      return {8, 8};
    case OutputKind::kHello:
    case OutputKind::kResume:
    case OutputKind::kAck:
    case OutputKind::kFinish:
      return {0, 0};
  }
  return {1, 0};
}

// Ranks above INT32_MAX are refused, because a rank is an int elsewhere.
bool is_consistent(OutputKind kind, std::uint8_t flags, std::uint8_t stream, std::uint32_t rank) {
  if (rank > 0x7fffffffU) return false;
  if (kind != OutputKind::kData) return flags == 0 && stream == 0;
  return flags <= (kPartial | kContinuation) && (stream == 1 || stream == 2);
}

}  // namespace

void encode_output_header(const OutputHeader& header, char* to) {
  const bool is_data = header.kind == OutputKind::kData;
  base::put_little_endian<std::uint32_t>(to, header.length);
  to[4] = static_cast<char>(header.kind);
  to[5] = static_cast<char>(header.flags);
  to[6] = is_data ? static_cast<char>(header.stream) : '\0';
  to[7] = '\0';
  base::put_little_endian<std::uint32_t>(to + 8, header.rank);
  base::put_little_endian<std::uint32_t>(to + 12, 0);
  base::put_little_endian<std::uint64_t>(to + 16, header.sequence);
}

std::string encode_output_frame(OutputHeader header, std::string_view payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  std::string frame(kOutputHeaderSize, '\0');
  encode_output_header(header, frame.data());
  frame.append(payload);
  return frame;
}

std::array<char, 16> encode_end_counts(EndCounts counts) {
  std::array<char, 16> payload;
  base::put_little_endian<std::uint64_t>(payload.data(), counts.stdout_bytes);
  base::put_little_endian<std::uint64_t>(payload.data() + 8, counts.stderr_bytes);
  return payload;
}

EndCounts decode_end_counts(std::string_view payload) {
  MUSTER_CHECK(payload.size() == 16);
  return {base::get_little_endian<std::uint64_t>(payload.data()),
          base::get_little_endian<std::uint64_t>(payload.data() + 8)};
}

std::array<char, 8> encode_gap_bytes(std::uint64_t bytes) {
  std::array<char, 8> payload;
  base::put_little_endian<std::uint64_t>(payload.data(), bytes);
  return payload;
}

std::uint64_t decode_gap_bytes(std::string_view payload) {
  MUSTER_CHECK(payload.size() == 8);
  return base::get_little_endian<std::uint64_t>(payload.data());
}

base::Result<OutputParse> parse_output_frame(std::string_view bytes) {
  if (bytes.size() < kOutputHeaderSize) return OutputParse{OutputParse::State::kNeedMore, {}, kOutputHeaderSize};
  const auto length = base::get_little_endian<std::uint32_t>(bytes.data());
  const auto kind = static_cast<std::uint8_t>(bytes[4]);
  const auto flags = static_cast<std::uint8_t>(bytes[5]);
  const auto stream = static_cast<std::uint8_t>(bytes[6]);
  const auto rank = base::get_little_endian<std::uint32_t>(bytes.data() + 8);
  const Limits limits = payload_limits(kind);
  if (length < limits.min || length > limits.max) {
    return base::invalid_argument("output frame of kind {} with {} bytes", kind, length);
  }
  if (bytes[7] != 0 || base::get_little_endian<std::uint32_t>(bytes.data() + 12) != 0 ||
      !is_consistent(static_cast<OutputKind>(kind), flags, stream, rank)) {
    return base::invalid_argument("output frame of kind {} with a malformed header", kind);
  }
  const std::size_t size = kOutputHeaderSize + length;
  if (bytes.size() < size) return OutputParse{OutputParse::State::kNeedMore, {}, size};
  OutputHeader header;
  header.kind = static_cast<OutputKind>(kind);
  header.flags = flags;
  header.stream = stream == 0 ? OutputStream::kStdout : static_cast<OutputStream>(stream);
  header.rank = rank;
  header.length = length;
  header.sequence = base::get_little_endian<std::uint64_t>(bytes.data() + 16);
  return OutputParse{OutputParse::State::kFrame, {header, bytes.substr(kOutputHeaderSize, length)}, size};
}

}  // namespace muster::proto
