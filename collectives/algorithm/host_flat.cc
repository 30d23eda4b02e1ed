#include <cstring>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"

namespace muster::collectives::inline algorithm {

base::Status flat_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction) {
  const std::size_t bytes = reduction.bytes();
  MUSTER_CHECK(bytes <= kSlotBytes);
  const bool is_inline = bytes <= kInlineBytes;
  team.begin(is_inline ? 0 : bytes);
  if (bytes != 0) std::memcpy(is_inline ? team.own_payload() : team.slot(team.rank()), reduction.input, bytes);
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  std::array<const void*, 16> few;
  std::vector<const void*> many;
  if (team.size() > static_cast<int>(few.size())) many.resize(static_cast<std::size_t>(team.size()));
  const std::span<const void*> inputs =
      many.empty() ? std::span(few).first(static_cast<std::size_t>(team.size())) : std::span(many);
  for (int i = 0; i < team.size(); ++i) {
    inputs[static_cast<std::size_t>(i)] = is_inline ? team.payload(i) : team.slot(i);
  }
  inputs[static_cast<std::size_t>(team.rank())] = reduction.input;
  reduce(reduction.type, reduction.op, inputs, reduction.output, reduction.count, reduction.scale);
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
