// The allreduce that reads the memory of other ranks, and the two checks whether it can be used.
// Read peer_read_allreduce() first, then reduce_own_slice() and read_peer(), then the checks at the end.
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// The bytes read from each peer at a time. So a few peers' blocks stay in the L2 cache until they are reduced.
constexpr std::size_t kScratchBytes = std::size_t{512} << 10;
constexpr std::size_t kMaxBlockBytes = std::size_t{256} << 10;

struct Address {
  std::uint64_t in = 0;
  std::uint64_t out = 0;
};

base::Status read_peer(HostTeam& team, int peer, std::uint64_t from, std::byte* to, std::size_t bytes) {
  while (bytes != 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(from), bytes};  // NOLINT(performance-no-int-to-ptr): of another process
    const ssize_t got = process_vm_readv(static_cast<pid_t>(team.mate(peer).pid), &local, 1, &remote, 1, 0);
    if (got <= 0) {
      const int error = got == 0 ? EFAULT : errno;
      const base::Status status =
          base::errno_error(error, fmt::format("reading the memory of rank {} ({}, pid {})", team.mate(peer).world_rank,
                                               team.mate(peer).host, team.mate(peer).pid));
      // The peer has ended. The launcher's report of how it ended follows later.
      return team.blame(peer, error == ESRCH ? base::Status(base::Code::kUnavailable, status.message()) : status);
    }
    to += got;
    from += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return base::ok_status();
}

base::Status reduce_own_slice(HostTeam& team, const ReduceTask& reduction, const std::vector<Address>& addresses) {
  const auto peers = static_cast<std::size_t>(team.size() - 1);
  const std::size_t block = std::min(kMaxBlockBytes, kScratchBytes / peers / 64 * 64);
  const std::unique_ptr<std::byte[]> scratch = std::make_unique_for_overwrite<std::byte[]>(block * peers);
  std::vector<const void*> inputs(peers + 1);
  const Slice own = slice_of(reduction.bytes(), team.size(), team.rank());
  for (std::size_t done = 0; done < own.size; done += block) {
    const std::size_t at = own.begin + done;
    const std::size_t bytes = std::min(block, own.size - done);
    std::byte* into = scratch.get();
    for (int i = 0; i < team.size(); ++i) {
      const auto index = static_cast<std::size_t>(i);
      if (i == team.rank()) {
        inputs[index] = reduction.in() + at;
        continue;
      }
      MUSTER_RETURN_IF_ERROR(read_peer(team, i, addresses[index].in + at, into, bytes));
      inputs[index] = into;
      into += block;
    }
    reduce(reduction.type, reduction.op, inputs, reduction.out() + at, bytes / reduction.element(), reduction.scale);
  }
  return base::ok_status();
}

}  // namespace

base::Status peer_read_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction) {
  team.begin();
  team.set_payload(
      Address{reinterpret_cast<std::uint64_t>(reduction.input), reinterpret_cast<std::uint64_t>(reduction.output)});
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  std::vector<Address> addresses(static_cast<std::size_t>(team.size()));
  for (int i = 0; i < team.size(); ++i) addresses[static_cast<std::size_t>(i)] = team.payload_as<Address>(i);
  MUSTER_RETURN_IF_ERROR(reduce_own_slice(team, reduction, addresses));
  team.begin();
  team.publish(call);
  for (int i = 1; i < team.size(); ++i) {
    const int peer = (team.rank() + i) % team.size();
    MUSTER_RETURN_IF_ERROR(team.wait_for(peer, call));
    const Slice slice = slice_of(reduction.bytes(), team.size(), peer);
    MUSTER_RETURN_IF_ERROR(read_peer(team, peer, addresses[static_cast<std::size_t>(peer)].out + slice.begin,
                                     reduction.out() + slice.begin, slice.size));
  }
  return team.meet(call);  // no rank may write its buffer while another one reads it
}

base::Result<bool> does_reading_peers_pay(HostTeam& team) {
  constexpr std::size_t kCount = std::size_t{512} << 10;
  constexpr int kTimes = 3;
  struct Times {
    double staged = 1e9;
    double reading = 1e9;
  };
  const Call call{.count = kCount, .op = Op::kBarrier};
  std::vector<float> data(kCount);
  ReduceTask task;
  task.op = RedOp::kMax;
  task.input = data.data();
  task.output = data.data();
  task.count = kCount;
  Times own;
  for (int i = 0; i < 2 * kTimes; ++i) {
    std::fill(data.begin(), data.end(), static_cast<float>(i));
    MUSTER_RETURN_IF_ERROR(team.meet(call));
    const auto begin = std::chrono::steady_clock::now();
    const bool is_staged = i % 2 == 0;
    MUSTER_RETURN_IF_ERROR(is_staged ? staged_allreduce(team, call, task) : peer_read_allreduce(team, call, task));
    const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    double& best = is_staged ? own.staged : own.reading;
    best = std::min(best, time);
  }
  team.begin();
  team.set_payload(own);
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  double difference = 0;
  for (int i = 0; i < team.size(); ++i)
    difference += team.payload_as<Times>(i).staged - team.payload_as<Times>(i).reading;
  return difference > 0;
}

base::Result<bool> can_read_peers(HostTeam& team) {
  const Call call{.op = Op::kBarrier};
  const std::uint64_t known = 0x6d75737465722121 + static_cast<std::uint64_t>(team.rank());
  team.begin();
  team.set_payload(Address{reinterpret_cast<std::uint64_t>(&known), known});
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  bool is_readable = true;
  for (int i = 0; i < team.size() && is_readable; ++i) {
    if (i == team.rank()) continue;
    const Address theirs = team.payload_as<Address>(i);
    std::uint64_t found = 0;
    is_readable =
        read_peer(team, i, theirs.in, reinterpret_cast<std::byte*>(&found), sizeof found).ok() && found == theirs.out;
  }
  team.begin();
  team.set_payload(is_readable);
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  for (int i = 0; i < team.size(); ++i) is_readable = is_readable && team.payload_as<bool>(i);
  return is_readable;
}

}  // namespace muster::collectives::algorithm
