// One connected TCP socket that carries Horovod frames in both directions. The store's end (horovod_origin.h) and the
// cache's end (horovod_tcp_upstream.h) share it.
//
// Thread: the loop's.
// Errors: keepalive and user timeout detect a lost peer within seconds. If `max_queued_bytes` wait for a peer that does
// not read, the link closes. After on_closed or its destruction, the link calls nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "rendezvous/horovod_frame.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

class HorovodLink {
 public:
  struct Events {
    // An error closes the link. The callback must not destroy the link.
    std::function<base::Status(const HorovodFrame&)> on_frame;
    // Called once, from the loop, never from within send(). It may destroy the link.
    std::function<void(const base::Status& why)> on_closed;
  };

  // Owns `fd`, which must be connected and non-blocking. `limits` bound what the peer may send.
  HorovodLink(base::Loop& loop, base::UniqueFd fd, const StoreLimits& limits, std::size_t max_queued_bytes,
              Events events);
  ~HorovodLink();
  HorovodLink(const HorovodLink&) = delete;
  HorovodLink& operator=(const HorovodLink&) = delete;

  // If `value` is not null, the frame carries it in place of frame.value. The link keeps a reference until it is sent.
  void send(HorovodFrame frame, HorovodValue value);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::rendezvous
