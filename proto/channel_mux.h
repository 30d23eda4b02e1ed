// Carries several local byte streams over one (in, out) pair of descriptors: control and output of an agent over its
// ssh channel, when dialling back is impossible. Symmetrical: both ends run a Mux with the same number of streams.
//
// Each stream has its own credit (256 KiB in flight), so a stream whose receiver does not read never delays another;
// stream 0 goes first when several have data. EOF of one direction of a stream passes through (half-close), a closed
// receiver comes back as EPIPE. Owner: whoever owns the channel; it runs its own thread, the callback comes from there.
// When the channel ends or breaks all local ends are closed: their users see EOF.
//
//   auto control = make_socketpair(SOCK_STREAM), output = make_socketpair(SOCK_STREAM);
//   Mux mux(std::move(channel_in), std::move(channel_out), locals(control.first, output.first), on_closed);
//   // gRPC takes control.second, the output connection takes output.second
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::proto {

inline constexpr std::size_t kMuxHeaderSize = 8;
inline constexpr std::size_t kMaxMuxPayload = 16 * 1024;
inline constexpr std::uint32_t kMuxWindow = 256 * 1024;
inline constexpr std::size_t kMaxMuxStreams = 16;

// Header, little endian: u32 length (Credit: number of bytes granted, no payload follows), u8 kind, u8 stream, u16
// zero.
enum class MuxKind : std::uint8_t {
  kData = 1,
  kCredit = 2,
  kEof = 3,    // no more data of this stream in this direction
  kReset = 4,  // the receiver of this stream is gone: send no more
};

struct MuxFrame {
  MuxKind kind = MuxKind::kData;
  std::uint8_t stream = 0;
  std::uint32_t credit = 0;  // kCredit
  std::string_view payload;  // kData; points into the parsed bytes
};

struct MuxParse {
  bool is_complete = false;
  MuxFrame frame;        // when complete
  std::size_t size = 0;  // complete: bytes to consume; else bytes needed in all
};

void append_mux_frame(const MuxFrame& frame, std::string* to);
// INVALID_ARGUMENT for an unknown kind, a stream at or above `streams`, a payload above the limit, non-zero padding.
base::Result<MuxParse> parse_mux_frame(std::string_view bytes, std::size_t streams);

class Mux {
 public:
  // `in` and `out` may be the same socket, given twice by dup. `locals[i]` is stream i: one end of a stream socketpair.
  // `on_closed` (once, on the Mux's thread, never after stop() returned): ok = the other side closed the channel
  // between two frames.
  Mux(base::UniqueFd in, base::UniqueFd out, std::vector<base::UniqueFd> locals,
      std::function<void(base::Status)> on_closed);
  ~Mux();  // stop()
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  // Closes everything and joins the thread. What was not yet written to the channel is dropped.
  void stop();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::proto
