// What a rank submits to the engine: a named operation on one tensor, or on several that are one unit ("grouped").
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
  kAdasum
};
inline constexpr int kKinds = 8;
std::string_view name_of(Kind kind);

struct TensorSpec {
  DType type = DType::kF32;
  std::vector<std::int64_t> shape = {};  // no dimension is negative

  std::size_t elements() const;
  std::size_t bytes() const { return elements() * size_of(type); }
  // Of what one step along the first dimension takes; a tensor without dimensions is one row.
  std::size_t row_elements() const;
  std::size_t rows() const { return shape.empty() ? 1 : static_cast<std::size_t>(shape.front()); }
  bool operator==(const TensorSpec&) const = default;
};

// What the ranks have to agree on, except for the first dimension of an allgather or alltoall and the splits.
struct Signature {
  Kind kind = Kind::kAllreduce;
  RedOp op = RedOp::kSum;
  std::int32_t root = -1;  // of kBroadcast
  double before = 1;       // scales of a reduction
  double after = 1;
  std::vector<TensorSpec> tensors = {};
  std::vector<std::int64_t> splits = {};  // of kAlltoall: rows to each rank
  bool is_on_gpu = false;                 // tensors are memory of this rank's GPU
  std::optional<DType> wire = {};         // 16-bit floats, as which float32 travels: of kAllreduce on a GPU

  std::size_t bytes() const;
  bool operator==(const Signature&) const = default;
};

// "allreduce of float32[3, 4], sum".
std::string describe(const Signature& signature);

// That a signature makes sense by itself, in a communicator of so many ranks.
base::Status check(const Signature& signature, int ranks);

// That all ranks may do this together: FAILED_PRECONDITION names two ranks and what each wants; a rank's number in it
// is that of `numbers`, or its own where that is empty. A rank without one (nullptr) has joined and contributes
// nothing, which only a sum can bear: zeros are its part.
base::Status agree(std::string_view name, const std::vector<const Signature*>& of_ranks,
                   std::span<const int> numbers = {});

}  // namespace muster::collectives::engine
