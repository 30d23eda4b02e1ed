// Which rows each rank has of what makes results of other sizes: allgather, reducescatter, alltoall. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/algorithm/slices.h"
#include "collectives/engine/negotiation.h"

namespace muster::collectives::inline engine {

// Of tensor `t` of an allgather: rows that each rank brings.
std::vector<std::size_t> rows_gathered(const Due& due, std::size_t t);

// Of a reducescatter: rows that each rank gets, in order; the first ranks get one more where they do not come out even.
std::vector<std::size_t> rows_scattered(std::size_t rows, std::size_t ranks);

// Of an alltoall, for one rank: where rows for and from each rank lie, in bytes, and how many come from each.
struct Exchanged {
  std::vector<Slice> to;
  std::vector<Slice> from;
  std::vector<std::int64_t> received;
  std::size_t rows = 0;  // that come, from all
};
Exchanged rows_exchanged(const Due& due, int rank);

// Blocks of rows, one behind the other.
std::vector<Slice> blocks_of_rows(const std::vector<std::size_t>& rows, std::size_t row_bytes);

}  // namespace muster::collectives::engine
