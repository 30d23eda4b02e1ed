// The connection of a relay to one service of the launcher, made when a child needs it.
//
// Owner, thread: the relay's thread. It never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::agent::inline relay {

class RelayUplink {
 public:
  static constexpr std::size_t kMostOutgoing = std::size_t{1} << 20;

  enum class Phase { kDown, kConnecting, kUp };

  RelayUplink(const base::IpAddress& launcher, std::uint16_t port) : launcher_(launcher), port_(port) {}

  // Begins to connect. After an error, or if it does not come up by `deadline`, call lost().
  base::Status connect(base::MonotonicTime now);
  // Call it when the socket of a connecting uplink accepts bytes.
  base::Status connected();
  // Reads what has arrived, and calls `on_frame` for each frame. UNAVAILABLE: the launcher has gone.
  base::Status read_some(const std::function<base::Status(const proto::RelayFrame&)>& on_frame);
  base::Status write_some();
  // Closes the connection. The next attempt may begin at again().
  void lost(base::MonotonicTime now);

  std::uint32_t next_stream() { return ++last_stream_; }
  bool is_full() const { return outgoing.size() >= kMostOutgoing; }
  int fd() const { return fd_.get(); }
  Phase phase() const { return phase_; }
  bool wants_write() const { return wants_write_; }
  base::MonotonicTime again() const { return again_; }
  base::MonotonicTime deadline() const { return deadline_; }

  std::string outgoing;      // frames for the launcher
  std::uint32_t polled = 0;  // what epoll watches
  bool was_full = false;     // children were told to wait

 private:
  const base::IpAddress launcher_;
  const std::uint16_t port_;
  base::UniqueFd fd_;
  Phase phase_ = Phase::kDown;
  std::string partial_;  // the beginning of an incomplete frame
  std::uint32_t last_stream_ = 0;
  bool wants_write_ = false;
  int failures_ = 0;  // attempts in a row
  base::MonotonicTime again_{};
  base::MonotonicTime deadline_{};
};

}  // namespace muster::agent::relay
