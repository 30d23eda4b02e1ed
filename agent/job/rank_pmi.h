// PMI-1 for this host's ranks. It decides which ranks get a PMI socket, sets their variables, and passes on what they
// report about their end. agent/pmi/ has the protocol itself.
//
// Owner: the job's session.
// Thread: the loop thread only.
// A job that does not serve MPI has an empty Launch.world and costs nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/job/awaited.h"
#include "agent/job/mpi_ends.h"
#include "agent/launch/spawn_request.h"
#include "agent/pmi/pmi_server.h"
#include "agent/process/warden_events.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

// True if this host has InfiniBand, RoCE or Omni-Path.
bool host_has_rdma();

class RankPmi {
 public:
  // `loop` and `ends` outlive this object.
  RankPmi(base::Loop& loop, MpiEnds& ends, std::function<void(const base::Status&)> on_problem)
      : loop_(loop), ends_(ends), on_problem_(std::move(on_problem)) {}

  // Call it before the ranks are planned. `keys` outlives this object; nullptr if there are no keys, and so no PMI.
  // Errors: a host that cannot serve PMI reports a problem. Programs other than MPICH's still run.
  void open(const v1::Launch& launch, rendezvous::HorovodKeys* keys);
  bool is_served() const { return server_ != nullptr; }
  // Returns the name of the key-value space that ranks get. Empty means that PMI is not served.
  const std::string& world_name() const { return world_.name(); }
  // Adds PMI's variables to `request`. Call it after the rest of the environment is made from `rank`.
  void plan(const v1::LaunchRank& rank, SpawnRequest& request) const;
  void started(RankStarted& started);  // takes its pmi_fd
  void ended(int rank);                // call it before MpiEnds::judge()
  std::optional<Awaited> awaited(int rank) const;

 private:
  PmiWorld world() const;

  base::Loop& loop_;
  MpiEnds& ends_;
  const std::function<void(const base::Status&)> on_problem_;
  v1::World world_;
  int host_ = 0;
  bool has_rdma_ = false;
  std::unique_ptr<PmiServer> server_;  // null if PMI is not served
};

// True if the launcher itself set the variable. False if the user set it for the ranks of a role.
bool is_of_launcher(const v1::LaunchRank& rank, const std::string& name);

// Returns the names of the variables by which a rank finds PMI.
std::vector<std::string> pmi_variable_names();

}  // namespace muster::agent::job
