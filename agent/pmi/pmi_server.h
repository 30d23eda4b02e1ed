// The PMI-1 server of one job on one host. By it, programs of MPICH and Intel MPI find each other without an mpiexec.
// Each rank gets a socket to it at its start (SpawnRequest::wants_pmi). The hosts exchange data by a HostFence at
// each barrier.
//
// Owner: the job's session.
// Thread: the loop thread only.
// Events: PmiEvents receives the ranks' reports about their own end. A handler must not destroy this object.
// Errors: a rank that breaks the protocol loses its socket.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/pmi/pmi_names.h"
#include "agent/pmi/pmi_space.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/host_fence.h"

namespace muster::agent::inline pmi {

struct PmiWorld {
  std::string name;  // the name of this start of the job; no other start has it
  int size = 0;
  int host = 0;                         // the index of this host in `hosts`
  std::vector<std::vector<int>> hosts;  // the ranks of each host
  // Number of ranks of each program, in rank order. Empty means that one program has all.
  std::vector<int> programs = {};
};

struct PmiEvents {
  std::function<void(int rank)> connected;  // called at MPI_Init
  std::function<void(int rank)> finalized;
  std::function<void(int rank, int code)> aborted;
  std::function<void(int rank)> spawn_refused;          // the rank goes on with an error
  std::function<void(const base::Status&)> on_problem;  // one sentence
};

class PmiSession;

class PmiServer {
 public:
  // `world` is called when the first rank sends a command. `loop` and `keys` outlive this object.
  PmiServer(base::Loop& loop, rendezvous::HorovodKeys& keys, std::function<PmiWorld()> world, PmiEvents events);
  ~PmiServer();  // ranks that wait get no answer
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // `socket` is our end, non-blocking.
  void add(int rank, base::UniqueFd socket);
  // Call this when the rank has ended. Handles what it sent before, and closes its socket.
  void ended(int rank);
  // Returns when the rank has entered the barrier in which it waits. nullopt if it waits in none.
  std::optional<base::MonotonicTime> waits_since(int rank) const;

 private:
  struct Rank {
    int barriers = 0;               // number of barriers that it has entered
    base::MonotonicTime entered{};  // when it entered the last one
    bool has_put = false;           // true if it has put since its last barrier; has_got means the same for get
    bool has_got = false;
    bool is_out = false;  // released early from the barrier in which it is
    base::Timer patience = {};
  };

  // Returns the line of the answer. Empty if there is no answer now, or none at all.
  base::Result<std::string> answer(int rank, const PmiCommand& command);
  base::Result<std::string> greet(int rank, const PmiCommand& command);
  base::Result<std::string> enter_barrier(int rank);
  std::string put(int rank, const PmiCommand& command);
  std::string get(int rank, const PmiCommand& command);
  void let_out(int rank);
  void barrier_is_over(const base::Result<rendezvous::HostFence::Blobs>& blobs);
  base::Status open_world();

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const std::function<PmiWorld()> make_world_;
  const PmiEvents events_;
  PmiWorld world_;
  PmiSpace space_;
  PmiNames names_;
  std::unique_ptr<rendezvous::HostFence> fence_;  // null until a rank has sent a command
  std::map<int, Rank> ranks_;
  std::set<int> in_barrier_;
  std::map<int, std::unique_ptr<PmiSession>> sessions_;
};

}  // namespace muster::agent::pmi
