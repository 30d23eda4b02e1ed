// The advice that the agent and the launcher print for users of MPI_Comm_spawn whose MPI cannot have more ranks.
#pragma once

namespace muster::model {

// Follows "MPI_Comm_spawn, " in a sentence.
inline constexpr const char* kSpawnAdvice =
    "which Muster supports for Open MPI alone: start all processes with the job, as with `hvdrun -np 1 ./manager : -np "
    "4 ./worker`";

}  // namespace muster::model
