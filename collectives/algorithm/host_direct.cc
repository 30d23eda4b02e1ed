#include <algorithm>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"
#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline algorithm {
namespace {

// The bytes of each vector that are reduced at a time. Large blocks keep a rank on one vector's pages for longer.
constexpr std::size_t kDirectBlockBytes = std::size_t{256} << 10;

}  // namespace

base::Status direct_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction,
                              std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) {
  const bool is_in_place = std::ranges::any_of(
      outputs, [&inputs](const std::byte* output) { return std::ranges::find(inputs, output) != inputs.end(); });
  const Stores stores = reduction.bytes() >= kStreamFrom && !is_in_place ? Stores::kStreaming : Stores::kCached;
  const Slice own = slice_of(reduction.bytes(), team.size(), team.rank());
  std::vector<const void*> from(inputs.size());
  std::vector<void*> to(outputs.size());
  for (std::size_t done = 0; done < own.size; done += kDirectBlockBytes) {
    const std::size_t at = own.begin + done;
    for (std::size_t i = 0; i < inputs.size(); ++i) from[i] = inputs[i] + at;
    for (std::size_t i = 0; i < outputs.size(); ++i) to[i] = outputs[i] + at;
    reduce_to_all(reduction.type, reduction.op, from, to,
                  std::min(kDirectBlockBytes, own.size - done) / reduction.element(), reduction.scale, stores);
  }
  return team.meet(call);  // no rank may touch its buffers before all are done
}

}  // namespace muster::collectives::algorithm
