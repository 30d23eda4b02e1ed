// The host of the session without a launcher. Rank 0 keeps the keys of all ranks and notifies ranks when one of them
// ends. The protocol is the same as the agent's (docs/rendezvous-protocol.md).
//
// Thread: rank 0's service thread, which polls the descriptors and calls on_ready().
// Connections arrive after their handshake (transport/handshake.h, purpose kSession). So the peer knows the secret, and
// the host does not send it. Connections are not encrypted. Rank 0's own connection is one end of a socket pair.
// Limits: SessionHostLimits bounds keys, waits, and bytes queued for a rank that does not read. A rank that exceeds a
// limit or breaks the protocol is cut off.
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
  // One process may have several worlds, such as one that closes and one that begins.
  std::size_t max_connections_of_rank = 16;
};

class SessionHost {
 public:
  // `size` is the world's.
  explicit SessionHost(int size, SessionHostLimits limits = {});
  ~SessionHost();  // closes all connections, so that the ranks' sessions are lost
  SessionHost(const SessionHost&) = delete;
  SessionHost& operator=(const SessionHost&) = delete;

  // `rank` is from the handshake. A hello with another rank is refused.
  void add(int rank, base::UniqueFd socket);

  // Ends the connections of a rank whose process has ended, and reports its end. A child of that process may hold the
  // other side open.
  void drop(int rank);

  void add_polls(std::vector<pollfd>& slots) const;
  // `fd` must be from add_polls(); other descriptors are ignored.
  void on_ready(int fd);

  bool is_empty() const { return peers_.empty(); }
  std::size_t connections() const { return peers_.size(); }
  // Returns one sentence, for a log, for each connection that was cut off since the last call.
  std::vector<base::Status> take_problems();

 private:
  struct Peer;
  struct Wait {
    int fd = -1;
    std::uint64_t id = 0;  // of the peer
  };
  // The last end of a rank that has not connected again.
  struct LastEnd {
    rendezvous::SessionEnded end;
    std::uint32_t generation = 0;  // of the connection that ended
  };

  base::Status read(Peer& peer);
  base::Status handle(Peer& peer, rendezvous::SessionMessage message);
  base::Status hello(Peer& peer, const rendezvous::SessionHello& hello);
  base::Status put(Peer& peer, rendezvous::SessionPut put);
  base::Status wait(Peer& peer, rendezvous::SessionWait wait);
  void cancel(Peer& peer, std::uint64_t id);
  base::Status store(const std::string& key, std::string value);
  void answer_waits(const std::string& key);
  void send(Peer& peer, const rendezvous::SessionMessage& message);
  void remove(Peer& peer, const base::Status& why);
  void report_end(int rank, const LastEnd& last);
  void drop_broken();

  const int size_;
  const SessionHostLimits limits_;
  std::map<int, std::unique_ptr<Peer>> peers_;  // by descriptor
  std::vector<int> broken_;                     // descriptors to which sending failed; removed at the end of the turn
  std::map<std::string, std::string> values_;
  std::size_t total_bytes_ = 0;
  std::multimap<std::string, Wait> waits_;
  std::map<int, std::uint32_t> hellos_;  // by rank, how many hellos it has sent
  std::map<int, LastEnd> ends_;
  std::vector<base::Status> problems_;
};

}  // namespace muster::collectives::join
