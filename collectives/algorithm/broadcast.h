// Broadcast over links: copies `bytes` bytes of the root's `data` to `data` of all others. Errors: see exchange.h.
//
//   tree   log2 p steps of all bytes           small vectors
//   chain  every rank sends each byte once     large vectors: a rank forwards bytes as they arrive
#pragma once

#include <cstddef>

#include "base/status.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives::inline algorithm {

base::Status tree_broadcast(Exchange& exchange, const Operation& operation, void* data, std::size_t bytes, int root);
base::Status chain_broadcast(Exchange& exchange, const Operation& operation, void* data, std::size_t bytes, int root);

}  // namespace muster::collectives::algorithm
