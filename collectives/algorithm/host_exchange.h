// The collectives other than allreduce among the ranks of one host. In each round every rank puts pieces into its slot
// and reads the pieces for itself from the others' slots.
//
// Thread: one at a time for a team; calls block.
// Counts and offsets are in bytes. `in` and `out` must not overlap unless "in place" is allowed.
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

// Copies `data` of the root to all others.
base::Status host_broadcast(HostTeam& team, const Call& call, std::byte* data, std::size_t bytes, int root);

// Rank i's blocks[i].size bytes go to blocks[i].begin of every rank's `out`. `blocks` must be the same on all ranks.
// The operation is in place if `in` is this rank's block of `out`.
base::Status host_allgather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, Blocks blocks);

// Sends the block to[i] of `in` to rank i, and receives the block from[i] of `out` from rank i. FAILED_PRECONDITION on
// both ranks if the sizes sent and expected differ.
base::Status host_alltoall(HostTeam& team, const Call& call, const std::byte* in, Blocks to, std::byte* out,
                           Blocks from);

// reduction.count is the number of elements of this rank's part of the result. blocks[i] is rank i's part of every
// rank's `in`.
base::Status host_reduce_scatter(HostTeam& team, const Call& call, const ReduceTask& reduction, Blocks blocks);

// Only the root uses reduction.out. In place is allowed on the root.
base::Status host_reduce(HostTeam& team, const Call& call, const ReduceTask& reduction, int root);

// host_gather copies `bytes` of each rank to the root's `out`, in rank order. host_scatter does the reverse.
base::Status host_gather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                         int root);
base::Status host_scatter(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                          int root);

}  // namespace muster::collectives::algorithm
