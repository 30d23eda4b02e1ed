// What agent and launcher say to a user of MPI_Comm_spawn.
#pragma once

namespace muster::model {

// Follows "MPI_Comm_spawn, " in a sentence.
inline constexpr const char* kSpawnAdvice =
    "which Muster does not support: start all processes with the job, as with `hvdrun -np 1 ./manager : -np 4 "
    "./worker`";

}  // namespace muster::model
