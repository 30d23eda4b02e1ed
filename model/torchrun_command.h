// Recognises commands that run torch's own launcher, torchrun, as the program of a rank. Each such rank is one of
// torchrun's nodes and starts workers itself. Pure.
//
//   hvdrun -np 2 -H n1:1,n2:1 torchrun --nproc-per-node=2 train.py
//
// torchrun needs a place where its nodes meet. Muster serves one, unless the command names another.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "model/job_spec.h"

namespace muster::model {

// Returns true for `torchrun`, `python -m torch.distributed.run` and `python -m muster.torchrun`, with their options.
// False if the options name a rendezvous of the user's own: --standalone, --rdzv-endpoint, --master-addr, --node-rank,
// or a --rdzv-backend other than c10d and muster.
bool is_torchrun_command(const std::vector<std::string>& command);

// Returns true if Muster serves the rendezvous of the job's torchrun processes.
bool serves_torchrun(const JobSpec& job);

// Returns true if the user's own variables (PET_RDZV_ENDPOINT, …) name a rendezvous.
bool has_own_rendezvous(const base::Environment& user_set);

}  // namespace muster::model
