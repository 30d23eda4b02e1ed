// Signatures of operations: sizes, descriptions, and checks.
// Read check() for one rank's signature, then agree() for those of all ranks.
#include "collectives/engine/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace muster::collectives::inline engine {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 44;

bool is_for_gpu(Kind kind) {
  return kind != Kind::kAdasum && kind != Kind::kBarrier && kind != Kind::kJoin && kind != Kind::kBuffer;
}

// Returns whether the specs `a` and `b` of two ranks agree in everything that `kind` requires.
bool fits(Kind kind, const TensorSpec& a, const TensorSpec& b) {
  if (a.type != b.type || a.shape.size() != b.shape.size()) return false;
  const bool is_ragged = kind == Kind::kAllgather || kind == Kind::kAlltoall;
  for (std::size_t i = is_ragged ? 1 : 0; i < a.shape.size(); ++i) {
    if (a.shape[i] != b.shape[i]) return false;
  }
  return true;
}

bool fits(const Signature& a, const Signature& b) {
  if (a.kind != b.kind || a.op != b.op || a.root != b.root || a.before != b.before || a.after != b.after ||
      a.is_on_gpu != b.is_on_gpu || a.is_alone != b.is_alone || a.wire != b.wire ||
      a.tensors.size() != b.tensors.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    if (!fits(a.kind, a.tensors[i], b.tensors[i])) return false;
  }
  return true;
}

base::Status check_tensor(const Signature& signature, const TensorSpec& tensor) {
  std::size_t elements = 1;
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 0 || (dimension != 0 && elements > kMostElements / static_cast<std::size_t>(dimension))) {
      return base::invalid_argument("{}: a dimension is negative, or the tensor has too many elements",
                                    describe(signature));
    }
    elements *= static_cast<std::size_t>(dimension);
  }
  const bool needs_rows =
      signature.kind == Kind::kAllgather || signature.kind == Kind::kAlltoall || signature.kind == Kind::kReduceScatter;
  if (needs_rows && tensor.shape.empty()) {
    return base::invalid_argument("{}: a tensor without dimensions has no rows to distribute", describe(signature));
  }
  const bool is_float = tensor.type == DType::kF16 || tensor.type == DType::kBF16 || tensor.type == DType::kF32 ||
                        tensor.type == DType::kF64;
  if (signature.kind == Kind::kAdasum && !is_float) {
    return base::invalid_argument("{}: Adasum needs floats", describe(signature));
  }
  if (signature.op == RedOp::kAvg && tensor.type == DType::kBool) {
    return base::invalid_argument("bool has no average; use max, min or sum");
  }
  return base::ok_status();
}

base::Status check_wire(const Signature& signature) {
  const auto is_float32 = [](const TensorSpec& tensor) { return tensor.type == DType::kF32; };
  if ((signature.wire == DType::kF16 || signature.wire == DType::kBF16) && signature.kind == Kind::kAllreduce &&
      signature.is_on_gpu && std::ranges::all_of(signature.tensors, is_float32)) {
    return base::ok_status();
  }
  return base::invalid_argument("{}: only float32 on a GPU can be reduced as 16-bit floats", describe(signature));
}

base::Status check_buffer(const Signature& signature) {
  if (signature.tensors.size() == 1 && signature.tensors.front().type == DType::kU8) return base::ok_status();
  return base::invalid_argument("{}: a buffer is one tensor of uint8", describe(signature));
}

base::Status check_splits(const Signature& signature, int ranks) {
  const auto rows = signature.tensors.empty() ? 0 : static_cast<std::int64_t>(signature.tensors.front().rows());
  std::int64_t sum = 0;
  for (const std::int64_t split : signature.splits) {
    if (split < 0 || split > rows) {
      return base::invalid_argument("{}: a split is negative, or larger than {} rows", describe(signature), rows);
    }
    sum += split;
  }
  if (signature.tensors.size() != 1 || std::cmp_not_equal(signature.splits.size(), ranks) || sum != rows) {
    return base::invalid_argument("{}: {} splits that add up to {} do not distribute {} rows to {} ranks",
                                  describe(signature), signature.splits.size(), sum, rows, ranks);
  }
  return base::ok_status();
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[kKinds] = {"allreduce", "allgather", "broadcast", "reducescatter", "alltoall",
                                               "barrier",   "join",      "adasum",    "buffer"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::size_t TensorSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1},
                         [](std::size_t product, std::int64_t n) { return product * static_cast<std::size_t>(n); });
}

std::size_t TensorSpec::row_elements() const {
  std::size_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= static_cast<std::size_t>(shape[i]);
  return product;
}

std::size_t Signature::bytes() const {
  std::size_t sum = 0;
  for (const TensorSpec& tensor : tensors) sum += tensor.bytes();
  return sum;
}

std::string describe(const Signature& signature) {
  std::string text(name_of(signature.kind));
  if (!signature.tensors.empty()) {
    const TensorSpec& first = signature.tensors.front();
    text += fmt::format(" of {}[{}]", name_of(first.type), fmt::join(first.shape, ", "));
    if (signature.tensors.size() > 1) text += fmt::format(" and {} more", signature.tensors.size() - 1);
  }
  const bool is_reduction = signature.kind == Kind::kAllreduce || signature.kind == Kind::kReduceScatter;
  if (is_reduction) text += fmt::format(", {}", name_of(signature.op));
  if (signature.kind == Kind::kBroadcast) text += fmt::format(" from rank {}", signature.root);
  if (signature.before != 1 || signature.after != 1) {
    text += fmt::format(", scaled by {} before and {} after", signature.before, signature.after);
  }
  if (signature.is_on_gpu) text += ", on a GPU";
  if (signature.is_alone) text += ", by itself";
  if (signature.wire) text += fmt::format(", as {}", name_of(*signature.wire));
  return text;
}

base::Status check(const Signature& signature, int ranks) {
  if (signature.is_on_gpu && !is_for_gpu(signature.kind)) {
    return base::invalid_argument("{}: this operation works only in memory of the host", describe(signature));
  }
  if (signature.wire) MUSTER_RETURN_IF_ERROR(check_wire(signature));
  if (!std::isfinite(signature.before) || !std::isfinite(signature.after)) {
    return base::invalid_argument("{}: a scale is not a finite number", describe(signature));
  }
  const bool has_tensors = signature.kind != Kind::kBarrier && signature.kind != Kind::kJoin;
  if (signature.tensors.empty() == has_tensors) {
    return base::invalid_argument("{} with {} tensors", name_of(signature.kind), signature.tensors.size());
  }
  for (const TensorSpec& tensor : signature.tensors) MUSTER_RETURN_IF_ERROR(check_tensor(signature, tensor));
  if (signature.kind == Kind::kBroadcast && (signature.root < 0 || signature.root >= ranks)) {
    return base::invalid_argument("{}: the ranks are 0 to {}", describe(signature), ranks - 1);
  }
  if (signature.kind == Kind::kAdasum && (ranks & (ranks - 1)) != 0) {
    return base::invalid_argument("{}: Adasum needs a power of two of ranks, but there are {}", describe(signature),
                                  ranks);
  }
  if (signature.is_alone && signature.kind != Kind::kAllreduce) {
    return base::invalid_argument("{}: only an allreduce can be packed with other tensors or not", describe(signature));
  }
  if (signature.kind == Kind::kBuffer) return check_buffer(signature);
  return signature.kind == Kind::kAlltoall ? check_splits(signature, ranks) : base::ok_status();
}

base::Status agree(std::string_view name, const std::vector<const Signature*>& of_ranks, std::span<const int> numbers) {
  const auto number_of = [&](std::size_t rank) { return numbers.empty() ? static_cast<int>(rank) : numbers[rank]; };
  const auto is_present = [](const Signature* signature) { return signature != nullptr; };
  const auto found = std::ranges::find_if(of_ranks, is_present);
  if (found == of_ranks.end()) return base::ok_status();
  const auto first = static_cast<std::size_t>(found - of_ranks.begin());
  const Signature& wanted = **found;
  for (std::size_t rank = first; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] == nullptr || fits(wanted, *of_ranks[rank])) continue;
    return base::failed_precondition("ranks differ in '{}': rank {} wants {}, rank {} wants {}", name, number_of(first),
                                     describe(wanted), number_of(rank), describe(*of_ranks[rank]));
  }
  const auto joined = std::ranges::find(of_ranks, nullptr);
  if (joined == of_ranks.end() || wanted.kind == Kind::kBarrier) return base::ok_status();
  const bool is_sum = wanted.op == RedOp::kSum || wanted.op == RedOp::kAvg;
  if (wanted.kind == Kind::kAllreduce && is_sum) return base::ok_status();
  return base::failed_precondition("'{}' is {}, which is no longer possible: rank {} has joined", name,
                                   describe(wanted), number_of(static_cast<std::size_t>(joined - of_ranks.begin())));
}

}  // namespace muster::collectives::engine
