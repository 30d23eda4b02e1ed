// Finds out for which keys of Horovod's store the ranks of this host wait. Horovod's workers poll: they ask again and
// again until the key exists. So while a watch lives, each answer "the key does not exist" is matched with the rank
// whose process has the other end of the connection.
//
// Matching a connection searches the descriptors of ranks, so a watch matches a bounded number of connections. Without
// a watch nothing is done.
//
// Owner: EvidenceCollector.
// Thread: the loop's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/job/awaited.h"
#include "base/clock.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/owner_check.h"

namespace muster::agent::inline job {

class StorePolls {
 public:
  // Watches the server of the keys. An empty function ends the watch.
  using Watch = std::function<void(rendezvous::HorovodServer::OnMissing on_missing)>;
  // Returns the number of the peer's socket. nullopt if it is no longer connected.
  using SocketOf = std::function<std::optional<std::uint64_t>(const rendezvous::ConnectionEnds& ends)>;
  using HasSocket = std::function<bool(pid_t pid, std::uint64_t socket)>;

  explicit StorePolls(Watch watch);
  StorePolls(Watch watch, SocketOf socket_of, HasSocket has_socket);
  StorePolls(const StorePolls&) = delete;
  StorePolls& operator=(const StorePolls&) = delete;

  // Begins a watch, which lives as long as the result. `processes` are those that do the work of each rank. A newer
  // watch replaces the processes of the others. The result must not outlive this object.
  std::shared_ptr<void> begin(std::map<int, pid_t> processes);

  // Returns the key that the rank has polled since `begin`, and since when it is known to do so. If it polls several
  // keys, the first one in the order of their names counts.
  std::optional<Awaited> awaited(int rank, base::MonotonicTime begin) const;
  // Forgets all other ranks.
  void keep_only(const std::map<int, pid_t>& ranks);

 private:
  struct Poll {
    std::string key;  // with its scope
    base::MonotonicTime since;
    base::MonotonicTime last;
  };

  void missing(const rendezvous::ConnectionEnds& ends, std::string_view scope, std::string_view key);
  void note(int rank, std::string key);

  const Watch watch_;
  const SocketOf socket_of_;
  const HasSocket has_socket_;
  std::map<int, pid_t> processes_;
  std::map<int, Poll> polls_;
  int watches_ = 0;
  int matches_left_ = 0;
  base::MonotonicTime began_{};  // the newest watch
};

}  // namespace muster::agent::job
