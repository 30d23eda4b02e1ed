#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "collectives/algorithm/host_allreduce.h"

namespace muster::collectives::inline algorithm {
namespace {

// One round: `part` is a part of a reduction and has at most kSlotBytes.
base::Status flat_round(HostTeam& team, const Call& call, const ReduceTask& part, std::span<const void*> inputs,
                        Stores stores) {
  const std::size_t bytes = part.bytes();
  const bool is_inline = bytes <= kInlineBytes;
  team.begin(is_inline ? 0 : bytes);
  if (bytes != 0) std::memcpy(is_inline ? team.own_payload() : team.slot(team.rank()), part.input, bytes);
  team.publish(call);
  MUSTER_RETURN_IF_ERROR(team.wait_for_all(call));
  for (int i = 0; i < team.size(); ++i) {
    inputs[static_cast<std::size_t>(i)] = is_inline ? team.payload(i) : team.slot(i);
  }
  inputs[static_cast<std::size_t>(team.rank())] = part.input;
  reduce(part.type, part.op, inputs, part.output, part.count, part.scale, stores);
  return base::ok_status();
}

}  // namespace

base::Status flat_allreduce(HostTeam& team, const Call& call, const ReduceTask& reduction) {
  std::array<const void*, 16> few;
  std::vector<const void*> many;
  const auto ranks = static_cast<std::size_t>(team.size());
  if (ranks > few.size()) many.resize(ranks);
  const std::span<const void*> inputs = many.empty() ? std::span(few).first(ranks) : std::span(many);
  if (reduction.bytes() <= kSlotBytes) return flat_round(team, call, reduction, inputs, Stores::kCached);
  const bool streams = reduction.bytes() >= kStreamFrom && reduction.input != reduction.output;
  for (std::size_t at = 0; at < reduction.bytes(); at += kSlotBytes) {
    ReduceTask part = reduction;
    part.input = reduction.in() + at;
    part.output = reduction.out() + at;
    part.count = std::min(kSlotBytes, reduction.bytes() - at) / reduction.element();
    MUSTER_RETURN_IF_ERROR(flat_round(team, call, part, inputs, streams ? Stores::kStreaming : Stores::kCached));
  }
  return base::ok_status();
}

}  // namespace muster::collectives::algorithm
