// Allreduce among the ranks of one host over their shared memory, in four ways. docs/collectives.md says when each is
// used. All four give the same bits, because each reduces element i in rank order.
//
// Thread: one at a time for a team; calls block.
// Errors: an error ends the team's communicator, and `out` is undefined then.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/call/call.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline algorithm {

// From this size on, results leave the caches before they are read. So they are stored past the caches, unless the
// operation is in place. Such stores need not read the old contents.
inline constexpr std::size_t kStreamFrom = std::size_t{12} << 20;

// Works in rounds of kSlotBytes: every rank puts its input into its line or its slot, then reduces all inputs. Each
// rank reads all bytes of all others.
base::Status flat_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// Works chunk by chunk: every rank stages what the others reduce, reduces its own slice, and copies the others' results
// out. This way works on every host.
base::Status staged_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// Lets the ranks read each other's memory (process_vm_readv). It needs can_read_peers().
base::Status peer_read_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// Uses buffers in memory that all ranks have mapped. inputs[i] and outputs[i] are rank i's, at this process's
// addresses. All ranks must have met after they wrote their inputs.
base::Status direct_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction,
                              std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs);

// Returns whether every rank of the team may read the memory of every other rank, the same answer on all. It takes two
// rounds.
base::Result<bool> can_read_peers(HostTeam& team);

// Returns whether peer_read_allreduce is faster here than staged_allreduce, for 2 MiB, the same answer on all ranks.
// That depends on the processor and on the kernel's protections: some systems walk a peer's pages faster than they copy
// twice. The call takes a few milliseconds and needs can_read_peers().
base::Result<bool> does_reading_peers_pay(HostTeam& team);

}  // namespace muster::collectives::algorithm
