#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives {
namespace {

// One chunk: `at` bytes into the vectors, `bytes` of them. The staging area of a rank holds its input for the others'
// slices, each at its place in the chunk; its result area what it has reduced.
class StagedChunk {
 public:
  StagedChunk(HostTeam& team, const Call& call, const ReduceTask& reduction, std::size_t at, std::size_t bytes)
      : team_(team), call_(call), reduction_(reduction), at_(at), bytes_(bytes) {}

  base::Status run(std::vector<const void*>& inputs) {
    team_.begin();
    for_others([this](int peer) { stage(slice(peer)); });
    team_.publish(call_);
    MUSTER_RETURN_IF_ERROR(team_.wait_for_all(call_));
    reduce_own(inputs);
    team_.begin();
    team_.publish(call_);
    base::Status waited;
    for_others([this, &waited](int peer) {
      if (waited.ok()) waited = team_.wait_for(peer, call_);
      if (waited.ok()) take(peer, slice(peer));
    });
    return waited;
  }

 private:
  Slice slice(int rank) const { return slice_of(bytes_, team_.size(), rank); }
  template <typename Visit>
  void for_others(const Visit& visit) const {
    for (int i = 1; i < team_.size(); ++i) visit((team_.rank() + i) % team_.size());
  }
  void stage(Slice slice) const {
    if (slice.size != 0)
      std::memcpy(team_.staging(team_.rank()) + slice.begin, reduction_.in() + at_ + slice.begin, slice.size);
  }
  void reduce_own(std::vector<const void*>& inputs) const {
    const Slice own = slice(team_.rank());
    for (int i = 0; i < team_.size(); ++i) inputs[static_cast<std::size_t>(i)] = team_.staging(i) + own.begin;
    inputs[static_cast<std::size_t>(team_.rank())] = reduction_.in() + at_ + own.begin;
    const std::array<void*, 2> outputs{reduction_.out() + at_ + own.begin, team_.result(team_.rank())};
    reduce_to_all(reduction_.type, reduction_.op, inputs, outputs, own.size / reduction_.element(), reduction_.scale);
  }
  void take(int peer, Slice slice) const {
    if (slice.size != 0) std::memcpy(reduction_.out() + at_ + slice.begin, team_.result(peer), slice.size);
  }

  HostTeam& team_;
  const Call& call_;
  const ReduceTask& reduction_;
  const std::size_t at_;
  const std::size_t bytes_;
};

}  // namespace

base::Status staged_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction, std::size_t chunk_bytes) {
  std::vector<const void*> inputs(static_cast<std::size_t>(team.size()));
  const std::size_t chunk = std::min(chunk_bytes, kStagingBytes);
  for (std::size_t at = 0; at < reduction.bytes(); at += chunk) {
    StagedChunk work(team, call, reduction, at, std::min(chunk, reduction.bytes() - at));
    MUSTER_RETURN_IF_ERROR(work.run(inputs));
  }
  return base::ok_status();
}

}  // namespace muster::collectives
