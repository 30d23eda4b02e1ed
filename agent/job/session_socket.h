// The socket `agent.sock` in the job's session directory, by which libmuster in this host's ranks reaches other
// ranks. The protocol is docs/rendezvous-protocol.md.
//
// Security: the socket serves only processes of our own uid (SO_PEERCRED, checked before a byte is read), and only
// ranks of this host. Keys: the socket serves the keys of the whole job, in the scope "muster". Ends: the socket
// reports the end of a rank of this host at once. Ends of ranks on other hosts come from the launcher; the agent asks
// for them at the first hello. While a held job has no launcher, these ends arrive only with the next one. Silence:
// an older libmuster receives no reports of silent hosts.
//
// Owner: the job's session.
// Thread: the session's loop thread.
// Errors: all queues are bounded. A rank that exceeds a limit or breaks the protocol loses its connection, and
// `on_problem` gets the reason.
// The destructor closes all connections.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/job/awaited.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/session_frame.h"

namespace muster::agent::inline job {

inline constexpr const char* kSessionSocketName = "agent.sock";

struct SessionSocketLimits {
  std::size_t max_connections_of_rank = 16;     // one process may have several worlds, one closing and one beginning
  std::size_t max_strangers = 256;              // connections without a hello; the oldest one is closed
  std::size_t max_waits_of_connection = 65536;  // enough for one wait on each rank of a large job
  std::size_t max_queued_bytes = 64 << 20;      // for a connection that does not read
};

class SessionSocket {
 public:
  struct Events {
    std::function<void()> on_first_hello;  // called once; from then on the socket needs the ends of other hosts' ranks
    std::function<void(const base::Status&)> on_problem;  // a connection was refused or closed; one sentence
  };

  SessionSocket(base::Loop& loop, Events events, SessionSocketLimits limits = {});
  ~SessionSocket();
  SessionSocket(const SessionSocket&) = delete;
  SessionSocket& operator=(const SessionSocket&) = delete;

  // Call it before the ranks run. `directory` is ours, with mode 0700. `secret` has 32 bytes. `ranks` are those of
  // this host. `keys` outlives this object.
  base::Status open(const std::string& directory, std::string secret, const std::vector<int>& ranks,
                    rendezvous::HorovodKeys& keys);

  // Begins a generation of a job whose ranks change: this host has these ranks now. Sessions of the generation before
  // end, and reports about its ranks are forgotten. May be called while the socket is not open.
  void begin_generation(const std::vector<int>& ranks);

  // Only the first call for a rank counts. May be called while the socket is not open.
  void rank_ended(rendezvous::SessionEnded end);
  // Sets the complete list of other hosts' ranks from which the launcher hears nothing. May be called while the socket
  // is not open.
  void set_silent(std::set<int> ranks);

  // Returns the key for which this rank of the present generation has waited longest. nullopt if it waits for none.
  std::optional<Awaited> awaited(int rank) const;

  std::size_t connections() const { return peers_.size(); }

 private:
  class Peer;

  void arm();
  void accept_some();
  base::Status admit(int fd) const;
  void make_room();
  // Peers call the next two functions.
  base::Status hello(Peer& peer, const rendezvous::SessionHello& hello);
  void gone(std::uint64_t peer, const base::Status& why);

  base::Loop& loop_;
  const Events events_;
  const SessionSocketLimits limits_;
  std::string secret_;
  std::set<int> ranks_;
  rendezvous::HorovodKeys* keys_ = nullptr;
  base::UniqueFd listening_;
  base::Timer readable_;
  base::Timer resume_;
  std::map<std::uint64_t, std::shared_ptr<Peer>> peers_;  // oldest first
  std::uint64_t next_peer_ = 1;
  std::map<int, std::uint32_t> hellos_;  // number of hellos of each rank
  std::map<int, rendezvous::SessionEnded> ended_;
  std::set<int> silent_;
  bool had_hello_ = false;
};

}  // namespace muster::agent::job
