// The collectives other than allreduce among the ranks of one host: everyone puts pieces into its slot, everyone takes
// what is meant for it, round after round. Blocking; one thread at a time for a team.
//
// Counts and offsets are in bytes. `in` and `out` do not overlap but where "in place" is said.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "collectives/algorithm/blocks.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/call/call.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline algorithm {

base::Status host_barrier(HostTeam& team, const Call& call);

// `data` of the root to all others.
base::Status host_broadcast(HostTeam& team, const Call& call, std::byte* data, std::size_t bytes, int root);

// Rank i's blocks[i].size at blocks[i].begin of everyone's `out`; `blocks` are the same on all. In place: `in` is
// this rank's block of `out`.
base::Status host_allgather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, Blocks blocks);

// To rank i what is at to[i] of `in`, from rank i what comes at from[i] of `out`. What a rank sends and what its peer
// expects must be equal: FAILED_PRECONDITION on both otherwise.
base::Status host_alltoall(HostTeam& team, const Call& call, const std::byte* in, Blocks to, std::byte* out,
                           Blocks from);

// reduction.count elements are this rank's part of the result; blocks[i] is rank i's part of everyone's `in`.
base::Status host_reduce_scatter(HostTeam& team, const Call& call, const ReduceTask& reduction, Blocks blocks);

// reduction.out is used on the root only. In place on the root.
base::Status host_reduce(HostTeam& team, const Call& call, const ReduceTask& reduction, int root);

// Of each rank `bytes` to the root's `out` in rank order, and the other way round.
base::Status host_gather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                         int root);
base::Status host_scatter(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                          int root);

}  // namespace muster::collectives::algorithm
