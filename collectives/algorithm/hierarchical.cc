#include "collectives/algorithm/hierarchical.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithm/allreduce.h"
#include "collectives/algorithm/choice.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

class Chunk {
 public:
  Chunk(const Hierarchy& hierarchy, const Operation& operation, const ReduceTask& reduction, std::size_t at,
        std::size_t bytes)
      : hierarchy_(hierarchy),
        team_(hierarchy.team),
        operation_(operation),
        reduction_(reduction),
        at_(at),
        bytes_(bytes) {}

  base::Status run(std::vector<const void*>& inputs) {
    team_.begin();
    for (int owner = 0; owner < hierarchy_.slices; ++owner) {
      if (owner != team_.rank()) stage(slice(owner));
    }
    team_.publish(operation_.call);
    MUSTER_RETURN_IF_ERROR(team_.wait_for_all(operation_.call));
    if (is_owner()) MUSTER_RETURN_IF_ERROR(reduce_own(inputs));
    team_.begin();
    team_.publish(operation_.call);
    // Wait for all ranks, even for those without a slice. After the wait no rank reads staged data any longer, and no
    // rank is two rounds ahead of another.
    for (int i = 1; i < team_.size(); ++i) {
      const int peer = (team_.rank() + i) % team_.size();
      MUSTER_RETURN_IF_ERROR(team_.wait_for(peer, operation_.call));
      if (peer < hierarchy_.slices) copy_result(peer, slice(peer));
    }
    return base::ok_status();
  }

 private:
  bool is_owner() const { return team_.rank() < hierarchy_.slices; }
  Slice slice(int owner) const { return slice_of(bytes_, hierarchy_.slices, owner); }
  void stage(Slice slice) const {
    if (slice.size != 0)
      std::memcpy(team_.staging(team_.rank()) + slice.begin, reduction_.in() + at_ + slice.begin, slice.size);
  }
  void copy_result(int owner, Slice slice) const {
    if (slice.size != 0) std::memcpy(reduction_.out() + at_ + slice.begin, team_.result(owner), slice.size);
  }
  base::Status reduce_own(std::vector<const void*>& inputs) const {
    const Slice own = slice(team_.rank());
    for (int i = 0; i < team_.size(); ++i) inputs[static_cast<std::size_t>(i)] = team_.staging(i) + own.begin;
    inputs[static_cast<std::size_t>(team_.rank())] = reduction_.in() + at_ + own.begin;
    std::byte* const result = team_.result(team_.rank());
    ReduceTask between = reduction_;
    between.count = own.size / reduction_.element();
    reduce(between.type, between.op, inputs, result, between.count, scale_of_inputs(reduction_.scale));
    between.scale = scale_of_result(reduction_.scale);
    between.input = result;
    between.output = result;
    MUSTER_RETURN_IF_ERROR(linked_allreduce(chosen(between), *hierarchy_.between, operation_, between));
    copy_result(team_.rank(), own);
    return base::ok_status();
  }

  AllreduceAlgorithm chosen(const ReduceTask& between) const {
    const int hosts = hierarchy_.between->size();
    const Layout layout{.ranks = hosts, .hosts = hosts, .link = hierarchy_.link};
    return choose_allreduce(layout, criteria_of(between));
  }

  const Hierarchy& hierarchy_;
  HostTeam& team_;
  const Operation& operation_;
  const ReduceTask& reduction_;
  const std::size_t at_;
  const std::size_t bytes_;
};

}  // namespace

base::Status hierarchical_allreduce(const Hierarchy& hierarchy, const Operation& operation,
                                    const ReduceTask& reduction) {
  std::vector<const void*> inputs(static_cast<std::size_t>(hierarchy.team.size()));
  const std::size_t slices = static_cast<std::size_t>(hierarchy.slices);
  const std::size_t chunk = std::min(kStagingBytes, slices * (kStagingBytes / 2));
  std::size_t at = 0;
  do {
    Chunk work(hierarchy, operation, reduction, at, std::min(chunk, reduction.bytes() - at));
    MUSTER_RETURN_IF_ERROR(work.run(inputs));
    at += chunk;
  } while (at < reduction.bytes());
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
