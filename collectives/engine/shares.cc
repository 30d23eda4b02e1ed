#include "collectives/engine/shares.h"

namespace muster::collectives::inline engine {

std::vector<std::size_t> rows_gathered(const Due& due, std::size_t t) {
  std::vector<std::size_t> rows;
  for (const auto& signature : due.of_ranks) rows.push_back(signature->tensors[t].rows());
  return rows;
}

std::vector<std::size_t> rows_scattered(std::size_t rows, std::size_t ranks) {
  std::vector<std::size_t> shares;
  for (std::size_t rank = 0; rank < ranks; ++rank) shares.push_back(rows / ranks + (rank < rows % ranks ? 1 : 0));
  return shares;
}

Exchanged rows_exchanged(const Due& due, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  const TensorSpec& tensor = due.of_ranks[own]->tensors.front();
  std::vector<std::size_t> sent;
  std::vector<std::size_t> received;
  Exchanged made;
  for (std::size_t other = 0; other < due.of_ranks.size(); ++other) {
    sent.push_back(static_cast<std::size_t>(due.of_ranks[own]->splits[other]));
    received.push_back(static_cast<std::size_t>(due.of_ranks[other]->splits[own]));
    made.received.push_back(due.of_ranks[other]->splits[own]);
    made.rows += received.back();
  }
  const std::size_t row_bytes = tensor.row_elements() * size_of(tensor.type);
  made.to = blocks_of_rows(sent, row_bytes);
  made.from = blocks_of_rows(received, row_bytes);
  return made;
}

std::vector<Slice> blocks_of_rows(const std::vector<std::size_t>& rows, std::size_t row_bytes) {
  std::vector<Slice> blocks;
  std::size_t begin = 0;
  for (const std::size_t count : rows) {
    blocks.push_back({begin, count * row_bytes});
    begin += count * row_bytes;
  }
  return blocks;
}

}  // namespace muster::collectives::engine
