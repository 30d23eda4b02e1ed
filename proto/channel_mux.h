// Carries several local byte streams over one (in, out) pair of descriptors. An agent's control and output use it over
// the ssh channel if the agent cannot dial back. Both ends run a Mux with the same number of streams.
//
// Each stream has its own credit of 256 KiB in flight, so a receiver that does not read never delays another stream.
// Stream 0 goes first when several streams have data. EOF of one direction passes through (half-close). The sender gets
// EPIPE after the receiver has closed its end.
//
// Owner: the owner of the channel.
// Thread: a Mux runs its own thread and calls `on_closed` there.
// Errors: when the channel ends or breaks, the Mux closes all local ends, and their users see EOF.
//
// Example:
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
  kReset = 4,  // the receiver of this stream has closed it, so send no more
};

struct MuxFrame {
  MuxKind kind = MuxKind::kData;
  std::uint8_t stream = 0;
  std::uint32_t credit = 0;  // kCredit
  std::string_view payload;  // kData; points into the parsed bytes
};

struct MuxParse {
  bool is_complete = false;
  MuxFrame frame;        // valid if is_complete
  std::size_t size = 0;  // bytes to consume if is_complete; else bytes needed in total
};

void append_mux_frame(const MuxFrame& frame, std::string* to);
// INVALID_ARGUMENT if the kind is unknown, the stream is at or above `streams`, the payload is above the limit, or the
// padding is not zero.
base::Result<MuxParse> parse_mux_frame(std::string_view bytes, std::size_t streams);

class Mux {
 public:
  // `in` and `out` may be one socket, duplicated by dup(). `locals[i]` is stream i: one end of a stream socketpair.
  // `on_closed` is called once on the Mux's thread, never after stop() has returned. Its status is ok if the peer
  // closed the channel between two frames.
  Mux(base::UniqueFd in, base::UniqueFd out, std::vector<base::UniqueFd> locals,
      std::function<void(base::Status)> on_closed);
  ~Mux();  // stop()
  Mux(const Mux&) = delete;
  Mux& operator=(const Mux&) = delete;

  // Closes everything and joins the thread. Drops data that is not yet written to the channel.
  void stop();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace muster::proto
