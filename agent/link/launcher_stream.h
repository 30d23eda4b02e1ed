// One stream to the launcher: connecting, TLS, frames, and what still waits to be sent. It does not reconnect.
//
// Owner: ControlClient::State, by a shared_ptr.
// Thread: the loop thread. Events run on the loop. Each may destroy its owner's reference; close() ends all events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/link/launcher_route.h"
#include "base/byte_channel.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"
#include "proto/control_frame.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline link {

class LauncherStream : public std::enable_shared_from_this<LauncherStream> {
 public:
  struct Events {
    std::function<void()> on_open;  // TCP connects
    std::function<void()> on_up;    // the launcher has proved who it is; send Hello now
    std::function<void(const v1::LauncherMessage&)> on_message;
    // `by_peer`: the peer has ended the stream, or its machine has. False if it was silent.
    std::function<void(const base::Status& why, bool by_peer)> on_end;
  };

  LauncherStream(base::Loop& loop, const base::TlsKey& key, Events events);

  // Begin with one of these.
  void connect(const LauncherRoute::Way& way);
  void use(base::UniqueFd connected);
  void use(std::unique_ptr<base::ByteChannel> channel);
  // Call it when the channel has bytes to read, accepts bytes again, or has ended.
  void channel_ready() { serve(); }

  // Queues a message; flush() writes.
  void send(const v1::AgentMessage& message);
  void flush();
  std::size_t unwritten() const { return outgoing_.size(); }
  // No event comes afterwards.
  void close();
  // Writes what the socket accepts now, then closes.
  void leave();

 private:
  void connected(const LauncherRoute::Way& way);
  void serve();
  base::Status step();
  base::Status read_some();
  base::Status parse();
  void take(std::string_view payload);
  base::Status write_some();
  void watch();
  void fail(const base::Status& why, int error = 0);

  base::Loop& loop_;
  const base::TlsKey key_;
  Events events_;
  base::UniqueFd fd_;  // while it connects
  std::optional<base::TlsStream> tls_;
  base::Timer connecting_;
  base::Timer readable_;
  base::Timer writable_;
  bool is_up_ = false;
  bool is_closed_ = false;
  bool wants_write_ = false;
  std::string partial_;   // the beginning of an incomplete frame
  std::string outgoing_;  // frames that the launcher has not got
};

}  // namespace muster::agent::link
