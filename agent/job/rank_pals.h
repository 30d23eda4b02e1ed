// What programs of Cray MPICH find on an HPE Cray system under its launcher PALS: variables, and the file apinfo
// (agent/pmi/apinfo.h) in the job's directory. Cray's library does the rest by itself, over ports that are named here.
// Written by the sources of two other launchers that serve it; on a Cray nobody has tried it.
//
// Not set, because their values under PALS are not known: PMI_JOBID, PALS_DEPTH, PALS_LOCAL_SIZE, PALS_FD and
// PMI_CONTROL_FD. Loop thread only; owned by the job's session.
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

  // Nothing, unless the launcher's World wants it. `session_secret`: of this start of the job, the same on all hosts;
  // ports and Cray's own secret are made of it and cannot be turned back into it. A host that cannot write the file
  // says so; other programs run.
  void open(const v1::Launch& launch, const std::string& session_dir, const std::string& session_secret);
  // After its environment has been made.
  void plan(SpawnRequest& request) const;

 private:
  base::Status write_file(const std::string& session_dir);
  base::Status choose_ports(const std::string& session_secret);

  const std::function<void(const base::Status&)> on_problem_;
  v1::World world_;
  int host_ = 0;
  std::string directory_;  // empty: not served
  std::string ports_;      // empty: one host
  std::string secret_;     // likewise
};

// By which a rank finds it.
std::vector<std::string> pals_variable_names();

}  // namespace muster::agent::job
