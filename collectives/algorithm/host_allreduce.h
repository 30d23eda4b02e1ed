// Allreduce among the ranks of one host over their shared memory, four ways (docs/collectives.md says which is taken
// when). All give the same bits: element i is reduced in rank order by every one of them.
//
// Blocking; one thread at a time for a team. An error ends the team's communicator; `out` is then undefined.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/call/call.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline algorithm {

// Results that are larger leave the caches before anybody reads them: they are stored past the caches, where the old
// contents need not be read (not in place).
inline constexpr std::size_t kStreamFrom = std::size_t{12} << 20;

// One round: everyone puts its input into the line or its slot, everyone reduces all of them. At most kSlotBytes.
base::Status flat_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// Chunk by chunk: everyone stages what the others reduce, reduces its own slice, and copies the others' out. Always
// works.
base::Status staged_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// The ranks read each other's memory (process_vm_readv). Needs can_read_peers().
base::Status peer_read_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction);

// The buffers lie in memory that all have mapped: inputs[i] and outputs[i] are rank i's, at this process's addresses.
// All ranks must have met after writing their inputs.
base::Status direct_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction,
                              std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs);

// Whether every rank of the team may read the memory of every other one; the same answer on all. Two rounds.
base::Result<bool> can_read_peers(HostTeam& team);

// Whether peer_read_allreduce is faster here than staged_allreduce, for 2 MiB; the same answer on all. That depends on
// the processor and on what protects the kernel: some walk a peer's pages faster than they copy twice. A few
// milliseconds. Needs can_read_peers().
base::Result<bool> does_reading_peers_pay(HostTeam& team);

}  // namespace muster::collectives::algorithm
