// The HTTP server at which unmodified Horovod workers rendezvous (HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT).
//
// Protocol: that of horovod 0.28.1's runner/http/http_server.py, as its C++ client sees it. horovod_request.h describes
// requests. Each reply has `Content-Length` and is one write. A GET gets 200 with the value, or 404 without a body if
// the key is missing (the client then polls). A PUT or DELETE gets 200 without a body. A path that does not have two
// parts gets 400. The client closes the connection. The server closes it only after a refusal or a time limit.
// The server also closes after these statuses: 405 for another method, 411 without Content-Length, and 413 and 431
// beyond a limit. 503 means that the keys or the memory for bodies are unavailable now, and 507 that the store is full.
//
// The owner check of every connection runs before a byte is read. Many connections at once are normal. At
// `max_connections`, the server closes the connection that has been silent for longest.
//
// Owner: the agent. Destroying the server closes all connections at once.
// Thread: the loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

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
  std::size_t max_connections = 4096;      // the server lowers it to half of the descriptor limit
  std::size_t max_body_bytes = 256 << 20;  // limit for all requests in progress together
  // Time limit for a whole request to arrive, and for the client to read a reply. When it ends, the server closes the
  // connection.
  base::Duration time_limit = std::chrono::seconds(30);
  CheckedListenerLimits listener;
};

struct HorovodServerCounts {
  std::uint64_t requests = 0;    // complete requests
  std::uint64_t refused = 0;     // answered with a status other than 200 and 404
  std::uint64_t expired = 0;     // connections closed at the time limit
  std::uint64_t made_room = 0;   // connections closed for newer ones
  std::uint64_t sent_bytes = 0;  // bytes of replies' heads and bodies
  std::size_t connections = 0;   // connections that are open now
};

class HorovodServer {
 public:
  // `listening` must be bound and non-blocking. The server sets its backlog. `keys` must outlive the server.
  HorovodServer(base::Loop& loop, base::UniqueFd listening, HorovodKeys& keys, OwnerCheck check,
                HorovodServerLimits limits = {});
  ~HorovodServer();
  HorovodServer(const HorovodServer&) = delete;
  HorovodServer& operator=(const HorovodServer&) = delete;

  HorovodServerCounts counts() const;

  // Called before each answer that a key does not exist, while the client still waits for it. Workers poll, so such
  // answers show for which key a worker waits.
  using OnMissing = std::function<void(const ConnectionEnds& ends, std::string_view scope, std::string_view key)>;
  // Replaces the last watch. An empty function ends it.
  void watch_missing(OnMissing on_missing);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace muster::rendezvous
