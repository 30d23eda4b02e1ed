#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// The bytes of a slice that are reduced at a time. They are still in the first-level cache when they are copied.
constexpr std::size_t kStagedBlockBytes = std::size_t{16} << 10;

// One chunk: `bytes` bytes of the vectors, from `at` on. In the first round, a rank's slot holds its input for the
// others' slices, each at its place in the chunk. In the second round, it holds what the rank has reduced.
class StagedChunk {
 public:
  StagedChunk(HostTeam& team, const Call& call, const ReduceTask& reduction, std::size_t at, std::size_t bytes)
      : team_(team),
        call_(call),
        reduction_(reduction),
        at_(at),
        bytes_(bytes),
        streams_(reduction.bytes() >= kStreamFrom && reduction.input != reduction.output) {}

  base::Status run(std::vector<const void*>& inputs) {
    team_.begin(bytes_);
    for_others([this](int peer) { stage(slice(peer)); });
    team_.publish(call_);
    MUSTER_RETURN_IF_ERROR(team_.wait_for_all(call_));
    const Slice own = slice(team_.rank());
    for (int i = 0; i < team_.size(); ++i) inputs[static_cast<std::size_t>(i)] = team_.slot(i) + own.begin;
    inputs[static_cast<std::size_t>(team_.rank())] = reduction_.in() + at_ + own.begin;
    team_.begin(slice(0).size);
    reduce_own(inputs, own);
    team_.publish(call_);
    base::Status waited;
    for_others([this, &waited](int peer) {
      if (waited.ok()) waited = team_.wait_for(peer, call_);
      if (waited.ok()) copy_result(team_.slot(peer), slice(peer));
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
      std::memcpy(team_.slot(team_.rank()) + slice.begin, reduction_.in() + at_ + slice.begin, slice.size);
  }
  // Reduces into the slot, then copies from there to the output. Two streams of stores are faster one after the other
  // than both at once.
  void reduce_own(std::vector<const void*>& inputs, Slice own) const {
    for (std::size_t done = 0; done < own.size; done += kStagedBlockBytes) {
      const std::size_t bytes = std::min(kStagedBlockBytes, own.size - done);
      std::byte* const result = team_.slot(team_.rank()) + done;
      reduce(reduction_.type, reduction_.op, inputs, result, bytes / reduction_.element(), reduction_.scale);
      copy_result(result, {own.begin + done, bytes});
      for (const void*& input : inputs) input = static_cast<const std::byte*>(input) + bytes;
    }
  }
  void copy_result(const std::byte* result, Slice slice) const {
    std::byte* const out = reduction_.out() + at_ + slice.begin;
    if (streams_) return copy_streaming(out, result, slice.size);
    if (slice.size != 0) std::memcpy(out, result, slice.size);
  }

  HostTeam& team_;
  const Call& call_;
  const ReduceTask& reduction_;
  const std::size_t at_;
  const std::size_t bytes_;
  const bool streams_;
};

}  // namespace

base::Status staged_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction) {
  std::vector<const void*> inputs(static_cast<std::size_t>(team.size()));
  const std::size_t chunk = team.room();
  for (std::size_t at = 0; at < reduction.bytes(); at += chunk) {
    StagedChunk work(team, call, reduction, at, std::min(chunk, reduction.bytes() - at));
    MUSTER_RETURN_IF_ERROR(work.run(inputs));
  }
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
