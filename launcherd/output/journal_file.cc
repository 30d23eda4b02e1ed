#include "launcherd/output/journal_file.h"

#include "base/little_endian.h"

namespace muster::launcherd::inline output {
namespace {

using base::get_little_endian;
using base::put_little_endian;

constexpr std::uint32_t kMagic = 0x314a544dU;  // "MTJ1"
constexpr std::size_t kCheckAt = 20;
constexpr std::size_t kLostSize = 8;
constexpr std::uint32_t kMaxNumber = 0x7fffffffU;  // ranks and agents fit into an int

std::uint32_t check_of(const char* header) {
  std::uint32_t hash = 2166136261U;
  for (std::size_t i = 0; i < kJournalHeaderSize; ++i) {
    if (i >= kCheckAt && i < kCheckAt + sizeof hash) continue;
    hash = (hash ^ static_cast<unsigned char>(header[i])) * 16777619U;
  }
  return hash;
}

bool has_stream(JournalKind kind) {
  return kind == JournalKind::kData;
}

bool is_length_allowed(JournalKind kind, std::uint32_t length) {
  switch (kind) {
    case JournalKind::kData:
      return length >= 1 && length <= proto::kMaxOutputPayload;
    case JournalKind::kLost:
      return length == kLostSize;
    case JournalKind::kGone:
      return length >= kLostSize && length <= kLostSize + kMaxJournalHost;
    case JournalKind::kAttempt:
    case JournalKind::kEndRank:
    case JournalKind::kEndAgent:
      return length == 0;
  }
  return false;  // an unknown kind
}

bool are_flags_allowed(JournalKind kind, std::uint8_t flags, std::uint8_t stream) {
  if (!has_stream(kind)) return flags == 0 && stream == 0;
  return flags <= (proto::kPartial | proto::kContinuation) && (stream == 1 || stream == 2);
}

}  // namespace

std::array<char, kJournalHeaderSize> encode_journal_header(const JournalHeader& header) {
  std::array<char, kJournalHeaderSize> bytes{};
  char* const to = bytes.data();
  put_little_endian(to, kMagic);
  put_little_endian(to + 4, header.length);
  to[8] = static_cast<char>(header.kind);
  to[9] = static_cast<char>(header.flags);
  to[10] = has_stream(header.kind) ? static_cast<char>(header.stream) : '\0';
  put_little_endian(to + 12, header.rank);
  put_little_endian(to + 16, header.agent);
  put_little_endian(to + 24, header.sequence);
  put_little_endian(to + 32, header.time_us);
  put_little_endian(to + kCheckAt, check_of(to));
  return bytes;
}

std::array<char, kJournalTrailerSize> encode_journal_trailer(const JournalHeader& header) {
  std::array<char, kJournalTrailerSize> bytes;
  put_little_endian(bytes.data(), static_cast<std::uint32_t>(journal_record_size(header.length)));
  return bytes;
}

std::string encode_journal_record(JournalHeader header, std::string_view payload) {
  header.length = static_cast<std::uint32_t>(payload.size());
  const auto front = encode_journal_header(header);
  const auto back = encode_journal_trailer(header);
  std::string record(front.data(), front.size());
  record.append(payload);
  record.append(back.data(), back.size());
  return record;
}

std::array<char, 8> encode_lost_bytes(std::uint64_t bytes) {
  std::array<char, 8> payload;
  put_little_endian(payload.data(), bytes);
  return payload;
}

std::uint64_t decode_lost_bytes(std::string_view payload) {
  MUSTER_CHECK(payload.size() >= kLostSize);
  return get_little_endian<std::uint64_t>(payload.data());
}

std::string encode_gone(std::uint64_t bytes, std::string_view host) {
  const auto lost = encode_lost_bytes(bytes);
  std::string payload(lost.data(), lost.size());
  return payload.append(host.substr(0, kMaxJournalHost));
}

std::string_view decode_gone_host(std::string_view payload) {
  return payload.substr(kLostSize);
}

base::Result<JournalParse> parse_journal_record(std::string_view bytes) {
  if (bytes.size() < kJournalHeaderSize) return JournalParse{false, {}, kJournalHeaderSize};
  const char* const from = bytes.data();
  JournalHeader header;
  header.length = get_little_endian<std::uint32_t>(from + 4);
  header.kind = static_cast<JournalKind>(from[8]);
  header.flags = static_cast<std::uint8_t>(from[9]);
  const auto stream = static_cast<std::uint8_t>(from[10]);
  header.rank = get_little_endian<std::uint32_t>(from + 12);
  header.agent = get_little_endian<std::uint32_t>(from + 16);
  header.sequence = get_little_endian<std::uint64_t>(from + 24);
  header.time_us = get_little_endian<std::int64_t>(from + 32);
  if (get_little_endian<std::uint32_t>(from) != kMagic || from[11] != 0 ||
      get_little_endian<std::uint32_t>(from + kCheckAt) != check_of(from) ||
      !is_length_allowed(header.kind, header.length) || !are_flags_allowed(header.kind, header.flags, stream) ||
      header.rank > kMaxNumber || header.agent > kMaxNumber) {
    return base::Status(base::Code::kDataLoss, "no record of an output journal begins here");
  }
  if (has_stream(header.kind)) header.stream = static_cast<proto::OutputStream>(stream);
  const std::size_t size = journal_record_size(header.length);
  if (bytes.size() < size) return JournalParse{false, {}, size};
  if (get_little_endian<std::uint32_t>(from + size - kJournalTrailerSize) != size) {
    return base::Status(base::Code::kDataLoss, "the record that begins here has a different length at its end");
  }
  return JournalParse{true, {header, bytes.substr(kJournalHeaderSize, header.length)}, size};
}

base::Result<std::size_t> parse_journal_trailer(std::string_view trailer) {
  MUSTER_CHECK(trailer.size() == kJournalTrailerSize);
  const std::size_t size = get_little_endian<std::uint32_t>(trailer.data());
  if (size >= kJournalOverhead && size <= kMaxJournalRecord) return size;
  return base::Status(base::Code::kDataLoss, "no record of an output journal ends here");
}

}  // namespace muster::launcherd::output
