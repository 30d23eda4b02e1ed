// Serves blocks of a broadcast to the job's other agents, over TLS with the key of the broadcast.
//
// Bounds: kMostPeers connections, kMostAsked requests and one block in memory for each. A connection that breaks a
// bound, sends no valid handshake in time, or accepts no byte for long is closed.
// Thread: serve() runs on a thread of its own. The rest may be called from any thread.
//
//   MUSTER_ASSIGN_OR_RETURN(auto server, BlockServer::listen(key));
//   server->serve(*table, stop);   // on its thread, until interrupt() or `stop`
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>

#include "agent/stage/block_table.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

class BlockServer {
 public:
  static constexpr std::size_t kMostPeers = 64;
  static constexpr std::size_t kMostAsked = 1024;

  // Listens on all addresses, at a port of the kernel's choice.
  static base::Result<std::unique_ptr<BlockServer>> listen(base::TlsKey key);

  std::uint16_t port() const { return port_; }
  const WakeFd& wake_fd() const { return wake_; }
  // Returns soon after interrupt(), or within a second after `stop` is set. Peers that connect earlier wait.
  void serve(const BlockTable& table, const std::atomic<bool>& stop);
  void interrupt();

 private:
  struct Peer {
    base::TlsStream stream;
    base::MonotonicTime moved;  // when bytes last moved
    base::MonotonicTime sent;   // when the last reply began
    bool is_up = false;
    bool wants_write = false;
    std::string incoming{};
    std::deque<BlockId> asked{};
    std::string outgoing{};
    std::size_t outgoing_at = 0;
  };

  BlockServer(base::TlsContext context, base::UniqueFd listener, WakeFd wake, std::uint16_t port);

  void accept_peers();
  // Returns false if the connection must be closed.
  bool step(Peer& peer);
  bool read_requests(Peer& peer);
  bool write_replies(Peer& peer);
  bool next_reply(Peer& peer);
  bool is_silent(const Peer& peer) const;

  const base::TlsContext context_;
  const base::UniqueFd listener_;
  const WakeFd wake_;
  const std::uint16_t port_;
  std::atomic<bool> is_interrupted_ = false;
  const BlockTable* table_ = nullptr;  // valid during serve()
  std::list<Peer> peers_{};
};

}  // namespace muster::agent::stage
