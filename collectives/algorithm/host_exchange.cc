// The collectives of one host, except allreduce: rounds of pieces through the ranks' slots.
// Read in_rounds() first, which all operations use; the operations are in the order of the header.
#include "collectives/algorithm/host_exchange.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithm/slices.h"
#include "collectives/transport/rank_index.h"

namespace muster::collectives::inline algorithm {
namespace {

std::size_t rounds_for(std::size_t bytes, std::size_t piece) {
  return bytes == 0 ? 0 : (bytes + piece - 1) / piece;
}

// Returns the size of the piece at `at` of a block of `bytes` bytes.
std::size_t piece_of(std::size_t bytes, std::size_t at, std::size_t piece) {
  return at >= bytes ? 0 : std::min(piece, bytes - at);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

// `put(slot, at)` fills this rank's slot of `pieces` pieces that begin at `at`. `get(at)` reads the pieces of the other
// ranks that begin at `at`. Even for no bytes there is one round, so that all ranks meet.
template <typename Put, typename Get>
base::Status in_rounds(HostTeam& team, const Call& call, std::size_t bytes, std::size_t piece, int pieces,
                       const Put& put, const Get& get) {
  const std::size_t rounds = std::max<std::size_t>(1, rounds_for(bytes, piece));
  for (std::size_t round = 0; round < rounds; ++round) {
    team.begin(piece * rank_index(pieces));
    put(team.slot(team.rank()), round * piece);
    team.publish(call);
    MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
    get(round * piece);
  }
  return base::ok_status();
}

// Returns the piece size for blocks of at most `longest` bytes, so that a slot holds `pieces` pieces.
std::size_t piece_for(std::size_t longest, int pieces) {
  const std::size_t most = kSlotBytes / rank_index(pieces) / 64 * 64;
  return longest >= most ? most : padded(longest);
}

}  // namespace

base::Status host_barrier(HostTeam& team, const Call& call) {
  return team.meet(call);
}

base::Status host_broadcast(HostTeam& team, const Call& call, std::byte* data, std::size_t bytes, int root) {
  const bool is_root = team.rank() == root;
  const std::size_t piece = piece_for(bytes, 1);
  return in_rounds(
      team, call, bytes, piece, 1,
      [&](std::byte* slot, std::size_t at) {
        if (is_root) copy_bytes(slot, data + at, piece_of(bytes, at, piece));
      },
      [&](std::size_t at) {
        if (!is_root) copy_bytes(data + at, team.slot(root), piece_of(bytes, at, piece));
      });
}

base::Status host_allgather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, Blocks blocks) {
  std::size_t longest = 0;
  for (const Slice& block : blocks) longest = std::max(longest, block.size);
  const Slice own = blocks[rank_index(team.rank())];
  copy_bytes(out + own.begin, in, own.size);
  const std::size_t piece = piece_for(longest, 1);
  return in_rounds(
      team, call, longest, piece, 1,
      [&](std::byte* slot, std::size_t at) { copy_bytes(slot, out + own.begin + at, piece_of(own.size, at, piece)); },
      [&](std::size_t at) {
        for (int i = 1; i < team.size(); ++i) {
          const int peer = (team.rank() + i) % team.size();
          const Slice& block = blocks[rank_index(peer)];
          copy_bytes(out + block.begin + at, team.slot(peer), piece_of(block.size, at, piece));
        }
      });
}

base::Status host_alltoall(HostTeam& team, const Call& call, const std::byte* in, Blocks to, std::byte* out,
                           Blocks from) {
  // First all ranks exchange their block sizes, because only two ranks know each block.
  std::uint64_t longest = 0;
  team.begin(rank_index(team.size()) * sizeof longest);
  for (int i = 0; i < team.size(); ++i) {
    const std::uint64_t bytes = to[rank_index(i)].size;
    std::memcpy(team.slot(team.rank()) + rank_index(i) * sizeof bytes, &bytes, sizeof bytes);
    longest = std::max(longest, bytes);
  }
  team.set_payload(longest);
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  for (int i = 0; i < team.size(); ++i) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, team.slot(i) + rank_index(team.rank()) * sizeof bytes, sizeof bytes);
    if (bytes != from[rank_index(i)].size) {
      return team.blame(i, base::failed_precondition("{}: rank {} ({}) sends {} bytes to rank {}, which expects {}",
                                                     describe(call), team.mate(i).world_rank, team.mate(i).host, bytes,
                                                     team.mate(team.rank()).world_rank, from[rank_index(i)].size));
    }
    longest = std::max(longest, team.payload_as<std::uint64_t>(i));
  }
  const std::size_t part = piece_for(longest, team.size());
  copy_bytes(out + from[rank_index(team.rank())].begin, in + to[rank_index(team.rank())].begin,
             to[rank_index(team.rank())].size);
  return in_rounds(
      team, call, longest, part, team.size(),
      [&](std::byte* slot, std::size_t at) {
        for (int i = 1; i < team.size(); ++i) {
          const auto peer = rank_index((team.rank() + i) % team.size());
          copy_bytes(slot + peer * part, in + to[peer].begin + at, piece_of(to[peer].size, at, part));
        }
      },
      [&](std::size_t at) {
        for (int i = 1; i < team.size(); ++i) {
          const int peer = (team.rank() + i) % team.size();
          const Slice& block = from[rank_index(peer)];
          copy_bytes(out + block.begin + at, team.slot(peer) + rank_index(team.rank()) * part,
                     piece_of(block.size, at, part));
        }
      });
}

base::Status host_reduce_scatter(HostTeam& team, const Call& call, const ReduceTask& reduction, Blocks blocks) {
  std::size_t longest = 0;
  for (const Slice& block : blocks) longest = std::max(longest, block.size);
  const std::size_t part = piece_for(longest, team.size());
  const std::size_t size = size_of(reduction.type);
  const Slice own = blocks[rank_index(team.rank())];
  std::vector<const void*> inputs(rank_index(team.size()));
  return in_rounds(
      team, call, longest, part, team.size(),
      [&](std::byte* slot, std::size_t at) {
        for (int i = 1; i < team.size(); ++i) {
          const auto peer = rank_index((team.rank() + i) % team.size());
          copy_bytes(slot + peer * part, reduction.in() + blocks[peer].begin + at,
                     piece_of(blocks[peer].size, at, part));
        }
      },
      [&](std::size_t at) {
        for (int i = 0; i < team.size(); ++i) inputs[rank_index(i)] = team.slot(i) + rank_index(team.rank()) * part;
        inputs[rank_index(team.rank())] = reduction.in() + own.begin + at;
        reduce(reduction.type, reduction.op, inputs, reduction.out() + at, piece_of(own.size, at, part) / size,
               reduction.scale);
      });
}

base::Status host_reduce(HostTeam& team, const Call& call, const ReduceTask& reduction, int root) {
  const bool is_root = team.rank() == root;
  const std::size_t size = size_of(reduction.type);
  std::vector<const void*> inputs(rank_index(team.size()));
  const std::size_t piece = piece_for(reduction.bytes(), 1);
  return in_rounds(
      team, call, reduction.bytes(), piece, 1,
      [&](std::byte* slot, std::size_t at) {
        if (!is_root) copy_bytes(slot, reduction.in() + at, piece_of(reduction.bytes(), at, piece));
      },
      [&](std::size_t at) {
        if (!is_root) return;
        for (int i = 0; i < team.size(); ++i) inputs[rank_index(i)] = team.slot(i);
        inputs[rank_index(root)] = reduction.in() + at;
        reduce(reduction.type, reduction.op, inputs, reduction.out() + at,
               piece_of(reduction.bytes(), at, piece) / size, reduction.scale);
      });
}

base::Status host_gather(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                         int root) {
  const bool is_root = team.rank() == root;
  if (is_root) copy_bytes(out + rank_index(root) * bytes, in, bytes);
  const std::size_t piece = piece_for(bytes, 1);
  return in_rounds(
      team, call, bytes, piece, 1,
      [&](std::byte* slot, std::size_t at) {
        if (!is_root) copy_bytes(slot, in + at, piece_of(bytes, at, piece));
      },
      [&](std::size_t at) {
        for (int i = 0; is_root && i < team.size(); ++i) {
          if (i != root) copy_bytes(out + rank_index(i) * bytes + at, team.slot(i), piece_of(bytes, at, piece));
        }
      });
}

base::Status host_scatter(HostTeam& team, const Call& call, const std::byte* in, std::byte* out, std::size_t bytes,
                          int root) {
  const bool is_root = team.rank() == root;
  const std::size_t part = piece_for(bytes, team.size());
  if (is_root) copy_bytes(out, in + rank_index(root) * bytes, bytes);
  return in_rounds(
      team, call, bytes, part, team.size(),
      [&](std::byte* slot, std::size_t at) {
        for (int i = 0; is_root && i < team.size(); ++i) {
          if (i != root)
            copy_bytes(slot + rank_index(i) * part, in + rank_index(i) * bytes + at, piece_of(bytes, at, part));
        }
      },
      [&](std::size_t at) {
        if (!is_root) copy_bytes(out + at, team.slot(root) + rank_index(team.rank()) * part, piece_of(bytes, at, part));
      });
}

}  // namespace muster::collectives::algorithm
