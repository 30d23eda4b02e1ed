// The HTTP server that unmodified Horovod workers rendezvous at (HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT).
//
// Protocol: horovod 0.28.1's runner/http/http_server.py as its C++ client sees it; what a request is:
// horovod_request.h. Replies, all with `Content-Length` and in one write: 200 with the value, 404 empty for a key that
// is not there (the client polls), 200 empty for PUT and DELETE; 400 for a path of other than two parts. The client
// closes; the server does so only after a refusal or a time limit. What a valid request within the limits cannot be
// answered with are other statuses; they mean, each answered and then closed: 405 another method, 411 no
// Content-Length, 413 and 431 over a limit, 503 the keys or the memory for bodies are not available now, 507 the store
// is full.
//
// Every connection is checked by its owner before a byte is read. Many connections at once are the normal case; at
// `max_connections` the one that has said nothing for longest makes room. Owner: the agent; on its loop. Destroying
// the server closes all connections at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_request.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

struct HorovodServerLimits {
  HorovodRequestLimits request;
  std::size_t max_connections = 4096;      // at most half of the limit of descriptors
  std::size_t max_body_bytes = 256 << 20;  // of all requests under way together
  // For a whole request to come, and for a reply to be taken; then the connection is closed.
  base::Duration time_limit = std::chrono::seconds(30);
  CheckedListenerLimits listener;
};

struct HorovodServerCounts {
  std::uint64_t requests = 0;    // complete ones
  std::uint64_t refused = 0;     // answered with a status other than 200 and 404
  std::uint64_t expired = 0;     // connections closed at the time limit
  std::uint64_t made_room = 0;   // connections closed for newer ones
  std::uint64_t sent_bytes = 0;  // of replies' heads and bodies
  std::size_t connections = 0;   // now
};

class HorovodServer {
 public:
  // `listening` is bound, non-blocking; the server sets its backlog. `keys` must outlive the server.
  HorovodServer(base::Loop& loop, base::UniqueFd listening, HorovodKeys& keys, OwnerCheck check,
                HorovodServerLimits limits = {});
  ~HorovodServer();
  HorovodServer(const HorovodServer&) = delete;
  HorovodServer& operator=(const HorovodServer&) = delete;

  HorovodServerCounts counts() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::rendezvous
