// The environment from which a job's ranks start (--stage-env). It was unpacked on this host before.
//
// Owner: SessionRanks. While this object lives, nobody removes the environment from the disk.
// Thread: the loop thread only.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Returns the folder of this host's environments, which lies beside the sessions.
std::string environments_folder(const std::string& session_dir);

class StagedEnvironment {
 public:
  // Takes the environment that the Launch names. Does nothing if it names none. NOT_FOUND: it is not on this host.
  base::Status open(const v1::Launch& launch, const std::string& environments);
  // Makes ranks start from the environment that was opened last. Does nothing if there is none.
  void apply(std::vector<SpawnRequest>& requests) const;

 private:
  std::string home_;                   // its folder; empty if there is none
  std::vector<std::string> prefixes_;  // its source's paths on the launcher's machine
  std::vector<std::string> names_;     // the variables that hold its folder
  base::UniqueFd held_;
};

// Changes one request: PATH begins with the environment's bin/, each of `names` is `home`, and PYTHONHOME is not set. A
// command in one of `prefixes` becomes that of `home`. Pure.
void start_from_environment(const std::string& home, const std::vector<std::string>& prefixes,
                            const std::vector<std::string>& names, SpawnRequest& request);

}  // namespace muster::agent::job
