// Serves programs of Cray MPICH in the way of PALS, the launcher of HPE Cray systems. It sets variables and writes
// the file apinfo (agent/pmi/apinfo.h) into the job's directory. Cray's library does the rest over the ports that the
// variables name.
// Source: two other launchers that serve Cray MPICH. Nobody has tried this class on a Cray.
//
// These variables are not set, because their values under PALS are unknown: PMI_JOBID, PALS_DEPTH, PALS_LOCAL_SIZE,
// PALS_FD and PMI_CONTROL_FD.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RankPals {
 public:
  explicit RankPals(std::function<void(const base::Status&)> on_problem) : on_problem_(std::move(on_problem)) {}

  // Does nothing unless the launcher's World asks for PALS. `session_secret` belongs to this start of the job and is
  // the same on all hosts. The ports and Cray's own secret are derived from it, and do not reveal it. Errors: reports a
  // file that cannot be written. Programs without Cray MPICH still run.
  void open(const v1::Launch& launch, const std::string& session_dir, const std::string& session_secret);
  // Adds the variables. Call it after the rest of the rank's environment is made.
  void plan(SpawnRequest& request) const;

 private:
  base::Status write_file(const std::string& session_dir);
  base::Status choose_ports(const std::string& session_secret);

  const std::function<void(const base::Status&)> on_problem_;
  v1::World world_;
  int host_ = 0;
  std::string directory_;  // empty if PALS is not served
  std::string ports_;      // empty if the job has one host
  std::string secret_;     // empty if the job has one host
};

// Returns the names of the variables by which a rank finds PALS.
std::vector<std::string> pals_variable_names();

}  // namespace muster::agent::job
