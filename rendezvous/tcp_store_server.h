// Serves a Store to torch programs of any generation as the TCPStore at MASTER_ADDR:MASTER_PORT, with
// TORCHELASTIC_USE_AGENT_STORE=True in their environment: then every rank is a client, and the store outlives any rank.
// The protocol and its source: tcp_store_protocol.h.
//
// Owned by the agent on rank 0's host. Everything happens on the loop's thread, which may be one for this server alone;
// loop and Store outlive it, and it must not be destroyed from one of its callbacks. Its own descriptors wait in an
// epoll of their own, of which the loop sees one: thousands of clients cost the other users of the loop nothing.
//
// Nobody is believed: the owner of every connection is asked for before a byte is read; lengths are checked before
// anything is kept; a client that does not read is not served; what all hold together is bounded; peers that vanished
// are found by keep-alive. What one client does ends at most its own connection.
//
// A restarted job must see nothing of the attempt before: renew() with a fresh Store, or a fresh server on a port of
// its own, before the first rank of the new attempt starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/owner_check.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_store_session.h"

namespace muster::rendezvous {

struct TcpStoreServerConfig {
  OwnerCheck owner_check = {};
  TorchGeneration hint = TorchGeneration::kA;  // what the ranks' torch is, if that is known and older than 2.2
  TcpStoreLimits limits = {};
  CheckedListenerLimits listener = {};
  // Of torch <= 2.0 each rank has two. Never more than the limit of descriptors allows, less a reserve.
  std::size_t max_connections = 40'000;
  // A connection was refused, or closed for what it sent: one sentence with the peer's address. May be empty.
  std::function<void(const base::Status&)> on_problem = {};
};

struct TcpStoreCounters {
  std::uint64_t accepted = 0;  // their owners were allowed
  std::uint64_t refused = 0;   // by the owner check or max_connections
  std::uint64_t failed = 0;    // closed for what they sent, or for what they held
  std::size_t open = 0;        // now
};

class TcpStoreServer {
 public:
  // `listening` is bound, listening and non-blocking (base::listen_any).
  static base::Result<std::unique_ptr<TcpStoreServer>> start(base::Loop* loop, base::UniqueFd listening, Store* store,
                                                             TcpStoreServerConfig config);
  ~TcpStoreServer();  // closes every connection and the listening socket
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // Closes every connection, those not yet accepted too, and serves `store` from now on, on the same port. After an
  // error (no descriptors) it serves nobody.
  base::Status renew(Store* store);

  TcpStoreCounters counters() const;

 private:
  class Impl;
  explicit TcpStoreServer(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
