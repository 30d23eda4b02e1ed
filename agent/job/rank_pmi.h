// PMI-1 for this host's ranks: who gets a socket for it, what their environment says of it, and what they tell of their
// end. The protocol itself is agent/pmi/.
//
// Loop thread only; owned by the job's session. A job that does not serve MPI (Launch.world is empty) costs nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/job/mpi_ends.h"
#include "agent/launch/spawn_request.h"
#include "agent/pmi/pmi_server.h"
#include "agent/process/warden_events.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

// InfiniBand, RoCE, Omni-Path: whether this host has any.
bool host_has_rdma();

class RankPmi {
 public:
  // `loop` and `ends` outlive it.
  RankPmi(base::Loop& loop, MpiEnds& ends, std::function<void(const base::Status&)> on_problem)
      : loop_(loop), ends_(ends), on_problem_(std::move(on_problem)) {}

  // Before the ranks are planned; `keys` outlives this. nullptr: there are none, and so no PMI. A host that cannot
  // serve it says so; programs other than MPICH's run.
  void open(const v1::Launch& launch, rendezvous::HorovodKeys* keys);
  // What ranks are told as their key-value space; empty: PMI is not served.
  const std::string& world_name() const { return world_.name(); }
  // After its environment has been made of `rank`'s.
  void plan(const v1::LaunchRank& rank, SpawnRequest& request) const;
  void started(RankStarted& started);  // takes its pmi_fd
  void ended(int rank);                // before it is judged (MpiEnds)

 private:
  PmiWorld world() const;

  base::Loop& loop_;
  MpiEnds& ends_;
  const std::function<void(const base::Status&)> on_problem_;
  v1::World world_;
  int host_ = 0;
  bool has_rdma_ = false;
  std::unique_ptr<PmiServer> server_;  // null: not served
};

// True if the launcher has made the variable, and not the user for the ranks of a role.
bool is_of_launcher(const v1::LaunchRank& rank, const std::string& name);

// By which a rank finds it.
std::vector<std::string> pmi_variable_names();

}  // namespace muster::agent::job
