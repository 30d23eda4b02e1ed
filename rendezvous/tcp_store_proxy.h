// Serves torch's TCPStore to the ranks of a host that does not have the store. It forwards the bytes of each client
// over a stream (byte_streams.h), so the store's host has no connection for each rank. It caches no value, because a
// client may overwrite or delete every key (docs/adr/0068). So all requests, waits and time limits are those of the
// store.
//
// Owner: the job's stores. Loop and streams outlive it.
// Thread: the loop's.
// Errors: every connection's owner is checked before a byte is read. If the stream ends, the client's connection ends
// after the bytes that have come. A client that ends closes its stream.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/byte_streams.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {

struct TcpStoreProxyConfig {
  OwnerCheck owner_check = {};
  std::string client;  // names this host to the store
  CheckedListenerLimits listener = {};
  std::function<void(const base::Status&)> on_problem = {};  // a connection was refused; one sentence
};

class TcpStoreProxy {
 public:
  // `listening` must be bound and non-blocking.
  TcpStoreProxy(base::Loop& loop, base::UniqueFd listening, ByteStreams& streams, TcpStoreProxyConfig config);
  ~TcpStoreProxy();  // closes all connections
  TcpStoreProxy(const TcpStoreProxy&) = delete;
  TcpStoreProxy& operator=(const TcpStoreProxy&) = delete;

  // Asks what the client at the peer's end of this connection waits for (ByteStreams::ask_wait). Returns false if there
  // is no such client; `done` is not called then.
  bool ask_wait(const ConnectionEnds& ends, const ByteStreams::Answer& done);

  std::size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    base::UniqueFd fd{};
    std::uint16_t port = 0;  // the client's own
    ByteStreams::Id stream = 0;
    std::size_t window = kStreamWindow;  // how many bytes may be sent to the store
    std::string out{};                   // bytes for the client
    bool is_stream_closed = false;       // the connection ends once `out` is sent
    base::Timer readable{};              // after `fd`, so that it ends first
    base::Timer writable{};
  };
  using ClientId = std::uint64_t;

  void check(const ConnectionEnds& ends, std::function<void(bool)> done);
  void add(base::UniqueFd fd);
  void watch(ClientId id);
  void receive(ClientId id);
  void send(ClientId id);
  void end_soon(ClientId id);

  base::Loop& loop_;
  ByteStreams& streams_;
  const TcpStoreProxyConfig config_;
  std::map<ClientId, Client> clients_;
  ClientId next_ = 1;
  std::vector<char> buffer_ = std::vector<char>(kStreamPiece);
  std::unique_ptr<CheckedListener> listener_;
  base::Gate gate_;
};

}  // namespace muster::rendezvous
