// Computes which rows each rank has in operations that change a tensor's size: allgather, reducescatter, alltoall. All
// functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/algorithm/slices.h"
#include "collectives/engine/negotiation.h"

namespace muster::collectives::inline engine {

// Allgather: returns the rows that each rank contributes to tensor `t`.
std::vector<std::size_t> rows_gathered(const Due& due, std::size_t t);

// Reducescatter: returns the rows that each rank gets, in rank order. If `rows` is not a multiple of `ranks`, the first
// ranks get one more.
std::vector<std::size_t> rows_scattered(std::size_t rows, std::size_t ranks);

// Alltoall, for one rank: where the rows to and from each rank lie, in bytes, and the number of rows from each rank.
struct Exchanged {
  std::vector<Slice> to;
  std::vector<Slice> from;
  std::vector<std::int64_t> received;
  std::size_t rows = 0;  // received from all ranks
};
Exchanged rows_exchanged(const Due& due, int rank);

// Lays blocks of rows out one behind the other.
std::vector<Slice> blocks_of_rows(const std::vector<std::size_t>& rows, std::size_t row_bytes);

}  // namespace muster::collectives::engine
