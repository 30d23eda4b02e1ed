// Everything that a job brings to its hosts before it starts: first the files of --stage, then the environment of
// --stage-env.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "launcherd/stage/env_staging.h"
#include "launcherd/stage/staging.h"
#include "model/job_spec.h"

namespace muster::launcherd::inline stage {

class JobStaging {
 public:
  struct Plan {
    std::vector<model::StagedPath> paths{};  // empty: no files
    std::string environment{};               // empty: no environment
    std::vector<Staging::Host> hosts{};      // must not be empty
    std::string token{};                     // random
    std::string never_staged{};              // a folder that must not be staged; empty means none
    std::string cache{};                     // the folder of packed environments; empty means ~/.cache/muster/envs
  };

  // The handler of `done` must not destroy this object.
  JobStaging(base::Loop& loop, Plan plan, Staging::Events events);

  void start();
  void answered(int agent, const v1::StageAnswer& answer);
  // nullopt without an environment. Valid after Events::done with an ok status.
  std::optional<v1::LaunchEnvironment> environment() const;

 private:
  void stage_environment();

  base::Loop& loop_;
  const Plan plan_;
  const Staging::Events events_;
  std::unique_ptr<Staging> files_;           // until the files are there
  std::unique_ptr<EnvStaging> environment_;  // from then on
  base::Gate gate_;
};

}  // namespace muster::launcherd::stage
