// The host of the session where there is no launcher: rank 0 keeps the keys of all ranks, and tells them when one of
// them is gone. The same protocol as the agent's (docs/rendezvous-protocol.md).
//
// One thread, rank 0's service thread: it polls the descriptors and calls on_ready(). Connections come as they are
// after the handshake (transport/handshake.h, purpose kSession), so that who speaks here knows the secret, which
// is therefore not sent: connections are not encrypted. Rank 0's own is one end of a socket pair. All is bounded: keys,
// what ranks wait for, and what waits for a rank that does not read by SessionHostLimits; a rank that goes beyond, or
// breaks the protocol, is cut off.
//
//   host.add_polls(slots); … poll …; for (const pollfd& slot : slots) if (slot.revents != 0) host.on_ready(slot.fd);
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/session_frame.h"
#include "rendezvous/session_stream.h"

namespace muster::collectives::inline join {

struct SessionHostLimits {
  std::size_t max_keys = 1 << 20;
  std::size_t max_total_bytes = std::size_t{1} << 30;  // of keys and values
  std::size_t max_waits = 1 << 20;                     // of all ranks
  std::size_t max_queued_bytes = 64 << 20;             // for one connection that does not read
  std::size_t max_connections_of_rank = 16;            // several worlds of one process, one closing, one beginning
};

class SessionHost {
 public:
  // `size`: of the world.
  explicit SessionHost(int size, SessionHostLimits limits = {});
  ~SessionHost();  // closes all: their sessions are lost
  SessionHost(const SessionHost&) = delete;
  SessionHost& operator=(const SessionHost&) = delete;

  // `rank`: as its handshake said; any other in its hello is refused.
  void add(int rank, base::UniqueFd socket);

  void add_polls(std::vector<pollfd>& slots) const;
  // `fd`: of add_polls(); others are ignored.
  void on_ready(int fd);

  bool is_empty() const { return peers_.empty(); }
  std::size_t connections() const { return peers_.size(); }
  // Of connections that were cut off since the last call: one sentence each, for a log.
  std::vector<base::Status> take_problems();

 private:
  struct Peer;
  struct Wait {
    int fd = -1;
    std::uint64_t id = 0;  // of the peer
  };
  // How a rank was last seen to go; of those that have not come again.
  struct Gone {
    rendezvous::SessionEnded news;
    std::uint32_t generation = 0;  // of the connection that ended
  };

  base::Status read(Peer& peer);
  base::Status take(Peer& peer, rendezvous::SessionMessage message);
  base::Status hello(Peer& peer, const rendezvous::SessionHello& hello);
  base::Status put(Peer& peer, rendezvous::SessionPut put);
  base::Status wait(Peer& peer, rendezvous::SessionWait wait);
  void cancel(Peer& peer, std::uint64_t id);
  base::Status store(const std::string& key, std::string value);
  void answer_waits(const std::string& key);
  void send(Peer& peer, const rendezvous::SessionMessage& message);
  void remove(Peer& peer, const base::Status& why);
  void tell_gone(int rank, const Gone& gone);
  void drop_broken();

  const int size_;
  const SessionHostLimits limits_;
  std::map<int, std::unique_ptr<Peer>> peers_;  // by descriptor
  std::vector<int> broken_;                     // could not be sent something; removed at the end of the turn
  std::map<std::string, std::string> values_;
  std::size_t total_bytes_ = 0;
  std::multimap<std::string, Wait> waits_;
  std::map<int, std::uint32_t> hellos_;  // of each rank
  std::map<int, Gone> gone_;
  std::vector<base::Status> problems_;
};

}  // namespace muster::collectives::join
