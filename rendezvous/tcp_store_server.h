// Serves a Store to torch programs of any generation, as the TCPStore at MASTER_ADDR:MASTER_PORT. Their environment
// must have TORCHELASTIC_USE_AGENT_STORE=True. Then every rank is a client, and the store outlives each rank.
// tcp_store_protocol.h has the protocol and its sources.
//
// Owner: the agent on rank 0's host. Loop and Store must outlive the server. None of its callbacks may destroy it.
// Thread: the loop's, which may serve only this server. Its descriptors have an epoll of their own, and the loop polls
// only that one. So thousands of clients do not slow other users of the loop.
//
// Errors: the server trusts no client. The owner check of every connection runs before a byte is read. Lengths are
// checked before anything is stored. A client that does not read is not served. The memory of all clients together is
// bounded. Keep-alive detects lost peers. A client's error ends only its own connection.
//
// A restarted job must see nothing of the attempt before. Before its first rank starts, call renew() with a fresh
// Store, or start a fresh server on its own port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/owner_check.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_store_session.h"

namespace muster::rendezvous {

struct TcpStoreServerConfig {
  OwnerCheck owner_check = {};
  TorchGeneration hint = TorchGeneration::kA;  // the generation of the ranks' torch, if it is known and older than 2.2
  TcpStoreLimits limits = {};
  CheckedListenerLimits listener = {};
  // With torch <= 2.0 each rank has two connections. The limit of descriptors, less a reserve, also applies.
  std::size_t max_connections = 40'000;
  // Called when a connection was refused, or closed because its bytes broke the protocol or a limit. Gets one sentence
  // with the peer's address. May be empty.
  std::function<void(const base::Status&)> on_problem = {};
};

struct TcpStoreCounters {
  std::uint64_t accepted = 0;  // allowed by the owner check
  std::uint64_t refused = 0;   // refused by the owner check or max_connections
  std::uint64_t failed = 0;    // closed because of their bytes, or of the memory that they held
  std::size_t open = 0;        // connections that are open now
};

// One client, as an observer sees it.
struct TcpStoreClient {
  std::optional<TcpStoreWait> wait{};  // nullopt if it waits for nothing
};

class TcpStoreServer {
 public:
  // `listening` must be bound, listening and non-blocking (base::listen_any).
  static base::Result<std::unique_ptr<TcpStoreServer>> start(base::Loop* loop, base::UniqueFd listening, Store* store,
                                                             TcpStoreServerConfig config);
  ~TcpStoreServer();  // closes every connection and the listening socket
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // Closes every connection, also those not accepted yet. From now on it serves `store`, on the same port. After an
  // error (no descriptors) it serves no client.
  base::Status renew(Store* store);

  TcpStoreCounters counters() const;

  // The state that its sessions share, for sessions without a connection (tcp_store_streams.h). Valid until renew().
  TcpStoreHub& hub();

  // Returns the client at this end of a connection. nullopt if no such connection is open.
  std::optional<TcpStoreClient> client_at(const base::IpAddress& peer, std::uint16_t port);

 private:
  class Impl;
  explicit TcpStoreServer(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::rendezvous
