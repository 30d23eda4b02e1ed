// The records of a job's output journal, and their parser. Pure: no I/O, no threads. docs/adr/0012 says why a job has
// one file.
//
// A journal is a sequence of records in the order of writing. The layout of a record, little endian:
//   0 u32 magic   4 u32 length of the payload   8 u8 kind   9 u8 flags   10 u8 stream   11 u8 zero   12 u32 rank
//   16 u32 agent   20 u32 FNV-1a of the other 36 bytes of this header   24 u64 sequence   32 i64 wall time, µs
//   40 payload, then a u32 with the size of the whole record, which allows reading a journal backwards
// `agent` and `sequence` identify the frame (proto/output_frame.h) from which the record comes. Sequence 0 means no
// frame.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

inline constexpr std::size_t kJournalHeaderSize = 40;
inline constexpr std::size_t kJournalTrailerSize = 4;
inline constexpr std::size_t kJournalOverhead = kJournalHeaderSize + kJournalTrailerSize;
inline constexpr std::size_t kMaxJournalHost = 255;  // bytes of a host's name; longer names are cut
inline constexpr std::size_t kMaxJournalRecord = kJournalOverhead + proto::kMaxOutputPayload;

enum class JournalKind : std::uint8_t {
  kAttempt = 1,   // `rank` is the number of the attempt that begins; sequences restart
  kData = 2,      // uses rank, stream and the flags of proto/output_frame.h; the payload is what the rank wrote
  kEndRank = 3,   // the rank writes no more
  kEndAgent = 4,  // no rank of this agent writes more
  // The payload is a u64: how many bytes of the agent's ranks are missing near this record, up to frame `sequence`.
  kLost = 5,
  // Like kLost, but for bytes that were once in this file and are lost. The host's name follows the u64.
  kGone = 6,
};

struct JournalHeader {
  JournalKind kind = JournalKind::kData;
  std::uint8_t flags = 0;
  proto::OutputStream stream = proto::OutputStream::kStdout;  // 0 in the file for kinds without a stream
  std::uint32_t rank = 0;
  std::uint32_t agent = 0;
  std::uint32_t length = 0;
  std::uint64_t sequence = 0;
  std::int64_t time_us = 0;  // since 1970, UTC
};

struct JournalRecord {
  JournalHeader header;
  std::string_view payload;  // points into the parsed bytes
};

constexpr std::size_t journal_record_size(std::size_t payload) {
  return kJournalOverhead + payload;
}

std::array<char, kJournalHeaderSize> encode_journal_header(const JournalHeader& header);
std::array<char, kJournalTrailerSize> encode_journal_trailer(const JournalHeader& header);
std::string encode_journal_record(JournalHeader header, std::string_view payload);
std::array<char, 8> encode_lost_bytes(std::uint64_t bytes);
std::uint64_t decode_lost_bytes(std::string_view payload);  // `payload` is that of a parsed kLost or kGone record
std::string encode_gone(std::uint64_t bytes, std::string_view host);
std::string_view decode_gone_host(std::string_view payload);  // `payload` is that of a parsed kGone record

// The result of one parse step.
struct JournalParse {
  bool is_whole = false;
  JournalRecord record;  // set only if is_whole
  // If is_whole, the record's size. Else the number of bytes that the whole record (or its header) needs.
  std::size_t size = 0;
};

// DATA_LOSS if no record begins here.
base::Result<JournalParse> parse_journal_record(std::string_view bytes);

// Returns the size of the record that ends with these kJournalTrailerSize bytes. DATA_LOSS if no record has that size.
base::Result<std::size_t> parse_journal_trailer(std::string_view trailer);

}  // namespace muster::launcherd::output
