// The launcher's end of a relay's connection: streams of the agents behind the relay (proto/relay_frame.h).
//
// Owner, thread: the I/O thread of a server (ControlStreams, OutputHub) owns and calls it. It never blocks.
// Limits: a stream holds at most kRelayWindow bytes that its reader has not taken. A relay that sends more breaks the
// protocol, and serve() fails. While kMostOutgoing bytes wait for the relay, channels accept no more. If the relay
// opens and closes streams and reads none of the answers, serve() fails, too. Channels may live longer than the
// connection: they then read what has arrived, and nothing more.
//
//   RelayConnection relay(std::move(fd), {.on_open = ..., .on_ready = ...});
//   after epoll: MUSTER_RETURN_IF_ERROR(relay.serve());  at the end of each turn: relay.write_pending()
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/byte_channel.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::launcherd::inline relays {

class RelayConnection {
 public:
  static constexpr std::size_t kMostOutgoing = std::size_t{1} << 20;

  struct Events {
    // A new stream. If the channel is destroyed at once, the agent is refused.
    std::function<void(std::uint32_t stream, std::unique_ptr<base::ByteChannel>)> on_open;
    // The stream has bytes to read, accepts bytes again, or has ended. Its owner destroys the channel to close it.
    std::function<void(std::uint32_t stream)> on_ready;
  };

  // `fd` is a connected socket whose first bytes, kRelayHello, have been read.
  RelayConnection(base::UniqueFd fd, Events events);
  ~RelayConnection();
  RelayConnection(const RelayConnection&) = delete;
  RelayConnection& operator=(const RelayConnection&) = delete;

  // Reads what has arrived, at most kRound bytes, and calls the events. UNAVAILABLE: the relay is gone.
  base::Status serve();
  base::Status write_pending();
  // True if the last serve() may have left bytes in the socket.
  bool has_more() const { return has_more_; }
  bool wants_write() const { return wants_write_; }
  bool has_pending() const;
  // The agent of this stream has proved who it is.
  void proven(std::uint32_t stream);

  int fd() const { return fd_.get(); }
  std::size_t streams() const;

 private:
  struct Shared;
  class Channel;

  base::Status handle(const proto::RelayFrame& frame);
  base::Status open(std::uint32_t stream);
  void touch(std::uint32_t stream);
  void tell_ready();

  static constexpr std::size_t kRound = std::size_t{256} * 1024;
  static constexpr std::size_t kMostUnread = 2 * kMostOutgoing;

  base::UniqueFd fd_;
  const Events events_;
  std::shared_ptr<Shared> shared_;
  std::string partial_;  // the beginning of an incomplete frame
  std::uint32_t last_stream_ = 0;
  std::vector<std::uint32_t> touched_;  // streams to which on_ready must be called
  bool has_more_ = false;
  bool wants_write_ = false;
};

}  // namespace muster::launcherd::relays
