// The PMI-1 server of one job on one host: MPICH's and Intel MPI's programs find each other by it, without an mpiexec.
// Each rank has a socket to it from birth (SpawnRequest::wants_pmi); the hosts meet by a HostFence at each barrier.
//
// Loop thread only; owned by the job's session. A rank that breaks the protocol loses its socket. What ranks say about
// their own end goes to PmiEvents, which must not destroy this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/pmi/pmi_names.h"
#include "agent/pmi/pmi_space.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "rendezvous/host_fence.h"

namespace muster::agent::inline pmi {

struct PmiWorld {
  std::string name;  // of this start of the job: no other has it
  int size = 0;
  int host = 0;                         // this one, of `hosts`
  std::vector<std::vector<int>> hosts;  // their ranks
  std::vector<int> programs = {};       // how many ranks each has, in rank order; empty: one has all
};

struct PmiEvents {
  std::function<void(int rank)> connected;  // MPI_Init
  std::function<void(int rank)> finalized;
  std::function<void(int rank, int code)> aborted;
  std::function<void(int rank)> spawn_refused;          // it goes on with an error
  std::function<void(const base::Status&)> on_problem;  // one sentence
};

class PmiSession;

class PmiServer {
 public:
  // `world` is asked for when the first rank speaks; `loop` and `keys` outlive this.
  PmiServer(base::Loop& loop, rendezvous::HorovodKeys& keys, std::function<PmiWorld()> world, PmiEvents events);
  ~PmiServer();  // ranks that wait hear nothing any more
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  // `socket`: our end, non-blocking.
  void add(int rank, base::UniqueFd socket);
  // The rank has ended: what it said before is told, and its socket closed.
  void ended(int rank);

 private:
  struct Rank {
    int barriers = 0;      // that it has entered
    bool has_put = false;  // since the last one, as has_got
    bool has_got = false;
    bool is_out = false;  // of the one that it is in
    base::Timer patience = {};
  };

  // The answer's line; empty: none (now).
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
  std::unique_ptr<rendezvous::HostFence> fence_;  // once a rank has spoken
  std::map<int, Rank> ranks_;
  std::set<int> in_barrier_;
  std::map<int, std::unique_ptr<PmiSession>> sessions_;
};

}  // namespace muster::agent::pmi
