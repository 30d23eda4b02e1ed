// The records of a job's output journal, and their parser. Pure: no I/O, no threads. Why one file: docs/adr/0012.
//
// A journal is records, one behind the other, in the order in which they were written. A record, little endian:
//   0 u32 magic   4 u32 length of the payload   8 u8 kind   9 u8 flags   10 u8 stream   11 u8 zero   12 u32 rank
//   16 u32 agent   20 u32 FNV-1a of the other 36 bytes of this header   24 u64 sequence   32 i64 wall time, µs
//   40 payload   and behind it u32 size of the whole record, so that a journal can also be read from its end
// `agent` and `sequence` name the frame (proto/output_frame.h) that the record was made of; sequence 0: of none.
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
inline constexpr std::size_t kMaxJournalHost = 255;  // bytes of a host's name; more are left out
inline constexpr std::size_t kMaxJournalRecord = kJournalOverhead + proto::kMaxOutputPayload;

enum class JournalKind : std::uint8_t {
  kAttempt = 1,   // rank: number of the attempt that begins; sequences start anew
  kData = 2,      // rank, stream, flags of proto/output_frame.h; payload: what the rank wrote
  kEndRank = 3,   // the rank writes no more
  kEndAgent = 4,  // nor does any of this agent's
  kLost = 5,      // payload: u64, bytes of the agent's ranks that are missing about here, up to frame `sequence`
  kGone = 6,      // the same of bytes that were once in this file, and are not any more; behind the u64 the host's name
};

struct JournalHeader {
  JournalKind kind = JournalKind::kData;
  std::uint8_t flags = 0;
  proto::OutputStream stream = proto::OutputStream::kStdout;  // written as 0 where the kind has none
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
std::uint64_t decode_lost_bytes(std::string_view payload);  // payload of a parsed kLost or kGone record
std::string encode_gone(std::uint64_t bytes, std::string_view host);
std::string_view decode_gone_host(std::string_view payload);  // payload of a parsed kGone record

// One parse step.
struct JournalParse {
  bool is_whole = false;
  JournalRecord record;  // of a whole one
  std::size_t size = 0;  // whole: the record's; otherwise bytes that the record (or its header) needs in all
};

// DATA_LOSS: no record begins here.
base::Result<JournalParse> parse_journal_record(std::string_view bytes);

// The size of the record that ends with these kJournalTrailerSize bytes. DATA_LOSS: no record has that size.
base::Result<std::size_t> parse_journal_trailer(std::string_view trailer);

}  // namespace muster::launcherd::output
