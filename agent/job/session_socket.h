// Where this host's ranks reach the world: `agent.sock` in the job's session directory (docs/rendezvous-protocol.md).
//
// Only processes of our own uid are served (SO_PEERCRED, before a byte is read), and only for ranks of this host. Keys
// are those of the whole job, in the scope "muster". News: of this host's ranks at once; of others as the launcher
// tells it, which is asked to from the first hello on. While a held job has no launcher, news of other hosts waits for
// the next one. Ranks of an older libmuster do not hear of silent hosts.
//
// Owner: the job's session; on its loop. Everything is bounded; a rank that goes beyond, or breaks the protocol, loses
// its connection, and `on_problem` is told why. Destroying it closes all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/session_frame.h"

namespace muster::agent::inline job {

inline constexpr const char* kSessionSocketName = "agent.sock";

struct SessionSocketLimits {
  std::size_t max_connections_of_rank = 16;     // several worlds of one process, one closing, one beginning
  std::size_t max_strangers = 256;              // connections that have not said hello; the oldest one goes
  std::size_t max_waits_of_connection = 65536;  // as many ranks, and some
  std::size_t max_queued_bytes = 64 << 20;      // for one connection that does not read
};

class SessionSocket {
 public:
  struct Events {
    std::function<void()> on_first_hello;                 // once; ends of other hosts' ranks are wanted from now on
    std::function<void(const base::Status&)> on_problem;  // a connection was refused or closed, one sentence
  };

  SessionSocket(base::Loop& loop, Events events, SessionSocketLimits limits = {});
  ~SessionSocket();
  SessionSocket(const SessionSocket&) = delete;
  SessionSocket& operator=(const SessionSocket&) = delete;

  // Before the ranks run. `directory`: ours, 0700. `secret`: 32 bytes. `ranks`: of this host. `keys` outlives this.
  base::Status open(const std::string& directory, std::string secret, const std::vector<int>& ranks,
                    rendezvous::HorovodKeys& keys);

  // Once for each rank counts; also while it is not open.
  void rank_ended(rendezvous::SessionEnded news);
  // Ranks of other hosts of which the launcher does not hear: all of them. Also while it is not open.
  void set_silent(std::set<int> ranks);

  std::size_t connections() const { return peers_.size(); }

 private:
  class Peer;

  void arm();
  void accept_some();
  base::Status admit(int fd) const;
  void make_room();
  // What a peer asks of this.
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
  std::map<std::uint64_t, std::shared_ptr<Peer>> peers_;  // by age
  std::uint64_t next_peer_ = 1;
  std::map<int, std::uint32_t> hellos_;  // of each rank
  std::map<int, rendezvous::SessionEnded> ended_;
  std::set<int> silent_;
  bool has_had_hello_ = false;
};

}  // namespace muster::agent::job
