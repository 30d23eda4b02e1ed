// A rank's submission to the engine: a named operation on one tensor, or on several tensors that form one unit
// ("grouped").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline engine {

enum class Kind : std::uint8_t {
  kAllreduce,
  kAllgather,
  kBroadcast,
  kReduceScatter,
  kAlltoall,
  kBarrier,
  kJoin,
  kAdasum,
  kBuffer
};
inline constexpr int kKinds = 9;
std::string_view name_of(Kind kind);

struct TensorSpec {
  DType type = DType::kF32;
  std::vector<std::int64_t> shape = {};  // no dimension is negative

  std::size_t elements() const;
  std::size_t bytes() const { return elements() * size_of(type); }
  // Returns the elements of one step along the first dimension. A tensor without dimensions is one row.
  std::size_t row_elements() const;
  std::size_t rows() const { return shape.empty() ? 1 : static_cast<std::size_t>(shape.front()); }
  bool operator==(const TensorSpec&) const = default;
};

// The values on which ranks must agree, except the first dimension of an allgather or alltoall, and the splits.
struct Signature {
  Kind kind = Kind::kAllreduce;
  RedOp op = RedOp::kSum;
  std::int32_t root = -1;  // only for kBroadcast
  double before = 1;       // before and after: scales of a reduction
  double after = 1;
  std::vector<TensorSpec> tensors = {};
  std::vector<std::int64_t> splits = {};  // only for kAlltoall: rows to each rank
  bool is_on_gpu = false;                 // the tensors are in memory of this rank's GPU
  bool is_alone = false;                  // only for kAllreduce: packed with no other tensors
  std::optional<DType> wire = {};  // the 16-bit float type in which float32 is sent; only for kAllreduce on a GPU

  std::size_t bytes() const;
  bool operator==(const Signature&) const = default;
};

// Returns text such as "allreduce of float32[3, 4], sum".
std::string describe(const Signature& signature);

// Checks that a signature is valid by itself in a communicator of `ranks` ranks.
base::Status check(const Signature& signature, int ranks);

// Checks that the signatures of all ranks fit together. FAILED_PRECONDITION names two ranks and what each of them
// submitted. Messages use `numbers` as the ranks' numbers; empty means their indices. A nullptr in `of_ranks` means
// that the rank has joined. That rank contributes zeros, so only a sum is possible.
base::Status agree(std::string_view name, const std::vector<const Signature*>& of_ranks,
                   std::span<const int> numbers = {});

}  // namespace muster::collectives::engine
