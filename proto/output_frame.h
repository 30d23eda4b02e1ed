// The frames of an output connection (agent to launcher), and their parser.
//
// Thread: any; pure, no I/O.
//
// A frame is a header of 24 bytes, little endian, and `length` bytes of payload:
//   0 u32 length   4 u8 kind   5 u8 flags   6 u8 stream   7 u8 zero   8 u32 rank (Hello: agent index)   12 u32 zero
//   16 u64 sequence
// The protocol:
// 1. The agent sends Hello.
// 2. The launcher answers Resume with the last sequence that it has accepted; 0 if it has none.
// 3. The agent sends Data, End and Finish, numbered 1, 2, 3 … across all of its connections. The launcher answers Ack.
//
// After a cut the agent reconnects and sends all frames above Resume's number again. The launcher drops duplicates, so
// it accepts each frame exactly once. A launcher that has lost accepted frames answers Resume with a number below its
// last Ack. The agent no longer has the lost frames, so it first sends Gap. If the last lost frame was Finish, the
// agent sends Finish again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::proto {

inline constexpr std::size_t kOutputHeaderSize = 24;
inline constexpr std::size_t kOutputKindAt = 4;
inline constexpr std::size_t kMaxOutputPayload = std::size_t{1} << 20;

enum class OutputKind : std::uint8_t {
  kHello = 1,   // rank: index of the agent
  kResume = 2,  // sequence: last frame that the launcher has accepted
  kData = 3,    // rank, stream, flags; payload: bytes
  kAck = 4,     // sequence: the launcher has accepted all frames up to this one
  kEnd = 5,     // rank; payload: bytes of stdout (u64), bytes of stderr (u64)
  kFinish = 6,  // no rank of this agent will send more output
  kGap = 7,     // sequence: frames up to this one are never sent again; payload: their bytes of Data (u64)
};

enum class OutputStream : std::uint8_t { kStdout = 1, kStderr = 2 };

// Flags of Data. Without flags the payload is whole lines, each ended by '\n' or '\r'.
inline constexpr std::uint8_t kPartial = 1;       // the last line has no end yet
inline constexpr std::uint8_t kContinuation = 2;  // the first line began in an earlier frame

struct OutputHeader {
  OutputKind kind = OutputKind::kData;
  std::uint8_t flags = 0;
  OutputStream stream = OutputStream::kStdout;  // on the wire 0 if the kind has no stream
  std::uint32_t rank = 0;
  std::uint32_t length = 0;
  std::uint64_t sequence = 0;
};

struct OutputFrame {
  OutputHeader header;
  std::string_view payload;  // points into the parsed bytes
};

struct EndCounts {
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
};

// Writes exactly kOutputHeaderSize bytes.
void encode_output_header(const OutputHeader& header, char* to);
std::string encode_output_frame(OutputHeader header, std::string_view payload);
std::array<char, 16> encode_end_counts(EndCounts counts);
EndCounts decode_end_counts(std::string_view payload);  // payload of a parsed End frame
std::array<char, 8> encode_gap_bytes(std::uint64_t bytes);
std::uint64_t decode_gap_bytes(std::string_view payload);  // payload of a parsed Gap frame

// One parse step over bytes received so far.
struct OutputParse {
  enum class State { kFrame, kNeedMore };
  State state = State::kNeedMore;
  OutputFrame frame;     // set only for kFrame
  std::size_t size = 0;  // kFrame: bytes to consume; kNeedMore: total bytes that the next frame or header needs
};

// INVALID_ARGUMENT if the kind, stream or flags are unknown, the length is beyond the limit of the kind, or a reserved
// field is not zero. Close the connection then: no agent or launcher of ours sends such a frame.
base::Result<OutputParse> parse_output_frame(std::string_view bytes);

}  // namespace muster::proto
