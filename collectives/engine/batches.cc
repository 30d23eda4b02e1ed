#include "collectives/engine/batches.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "collectives/algorithm/slices.h"

namespace muster::collectives::inline engine {
namespace {

// The properties that tensors must share to be packed together. The last one is 0 for tensors that may be packed with
// any others. For a group that must be packed alone, it is a number that identifies the group.
using Key = std::tuple<DType, std::optional<DType>, RedOp, double, double, bool, std::size_t>;

}  // namespace

const Signature& signature_of(const Due& due) {
  return **std::ranges::find_if(due.of_ranks, [](const auto& signature) { return signature.has_value(); });
}

std::vector<Batch> batches_of(std::span<const Due> due, std::size_t threshold, bool fuses_groups) {
  std::vector<Batch> batches;
  std::map<Key, std::size_t> open;  // the last batch of each kind
  for (std::size_t i = 0; i < due.size(); ++i) {
    if (!due[i].problem.ok() || due[i].last_joined >= 0) continue;
    const Signature& signature = signature_of(due[i]);
    if (signature.kind != Kind::kAllreduce) {
      batches.push_back({.pieces = {{i, 0}}, .bytes = signature.bytes()});
      continue;
    }
    for (std::size_t t = 0; t < signature.tensors.size(); ++t) {
      const TensorSpec& tensor = signature.tensors[t];
      if (signature.is_alone) {
        batches.push_back({.pieces = {{i, t}}, .bytes = tensor.bytes()});
        continue;
      }
      const std::size_t bytes = padded(tensor.elements() * size_of(signature.wire.value_or(tensor.type)));
      const std::size_t group = fuses_groups || signature.tensors.size() == 1 ? 0 : i + 1;
      const Key key{tensor.type,     signature.wire,      signature.op, signature.before,
                    signature.after, signature.is_on_gpu, group};
      const auto found = open.find(key);
      if (found != open.end() && batches[found->second].bytes + bytes <= threshold) {
        batches[found->second].pieces.push_back({i, t});
        batches[found->second].bytes += bytes;
        continue;
      }
      open[key] = batches.size();
      batches.push_back({.pieces = {{i, t}}, .bytes = bytes});
    }
  }
  return batches;
}

}  // namespace muster::collectives::engine
