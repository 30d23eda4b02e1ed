#include "collectives/engine/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

namespace muster::collectives {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 44;

using base::Code;
using base::error;

// What has to be the same in the shapes of all ranks.
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
      return error(Code::kInvalidArgument, "{}: a tensor cannot have this shape", describe(signature));
    }
    elements *= static_cast<std::size_t>(dimension);
  }
  const bool needs_rows =
      signature.kind == Kind::kAllgather || signature.kind == Kind::kAlltoall || signature.kind == Kind::kReduceScatter;
  if (needs_rows && tensor.shape.empty()) {
    return error(Code::kInvalidArgument, "{}: a tensor without dimensions has no rows to share out",
                 describe(signature));
  }
  if (signature.op == RedOp::kAvg && tensor.type == DType::kBool) {
    return error(Code::kInvalidArgument, "there is no average of bool: use max, min or sum");
  }
  return base::ok_status();
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[kKinds] = {"allreduce", "allgather", "broadcast", "reducescatter",
                                               "alltoall",  "barrier",   "join"};
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
  return text;
}

base::Status check(const Signature& signature, int ranks) {
  const bool has_tensors = signature.kind != Kind::kBarrier && signature.kind != Kind::kJoin;
  if (signature.tensors.empty() == has_tensors) {
    return error(Code::kInvalidArgument, "{} with {} tensors", name_of(signature.kind), signature.tensors.size());
  }
  for (const TensorSpec& tensor : signature.tensors) MUSTER_RETURN_IF_ERROR(check_tensor(signature, tensor));
  if (signature.kind == Kind::kBroadcast && (signature.root < 0 || signature.root >= ranks)) {
    return error(Code::kInvalidArgument, "{}: there are ranks 0 to {}", describe(signature), ranks - 1);
  }
  if (signature.kind != Kind::kAlltoall) return base::ok_status();
  std::int64_t sum = 0;
  for (const std::int64_t split : signature.splits) {
    if (split < 0) return error(Code::kInvalidArgument, "{}: a split is negative", describe(signature));
    sum += split;
  }
  const auto rows = signature.tensors.empty() ? 0 : static_cast<std::int64_t>(signature.tensors.front().rows());
  if (signature.tensors.size() != 1 || std::cmp_not_equal(signature.splits.size(), ranks) || sum != rows) {
    return error(Code::kInvalidArgument, "{}: {} splits that add up to {} do not share out {} rows to {} ranks",
                 describe(signature), signature.splits.size(), sum, rows, ranks);
  }
  return base::ok_status();
}

base::Status agree(std::string_view name, const std::vector<const Signature*>& of_ranks) {
  int first = -1;
  int joined = -1;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] == nullptr) {
      joined = static_cast<int>(rank);
      continue;
    }
    if (first < 0) first = static_cast<int>(rank);
    const Signature& wanted = *of_ranks[static_cast<std::size_t>(first)];
    if (fits(wanted, *of_ranks[rank])) continue;
    return error(Code::kFailedPrecondition, "ranks differ in '{}': rank {} wants {}, rank {} wants {}", name, first,
                 describe(wanted), rank, describe(*of_ranks[rank]));
  }
  if (first < 0 || joined < 0) return base::ok_status();
  const Kind kind = of_ranks[static_cast<std::size_t>(first)]->kind;
  if (kind == Kind::kAllreduce || kind == Kind::kBarrier) return base::ok_status();
  return error(Code::kFailedPrecondition, "'{}' is {}, which is not possible any more: rank {} has joined", name,
               name_of(kind), joined);
}

}  // namespace muster::collectives
