// One rank to another one. Both give the same number of bytes; messages between two ranks arrive in the order in which
// they were sent, together with those of other operations over the same link. `operation.sequence` counts what these
// two ranks did with each other in this direction. Errors: exchange.h.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "collectives/transport/exchange.h"

namespace muster::collectives {

// Returns when the link has taken all: a large message needs a receiver that has called.
base::Status send_to(Exchange& exchange, const Operation& operation, int peer, std::span<const std::byte> bytes);
base::Status receive_from(Exchange& exchange, const Operation& operation, int peer, std::span<std::byte> place);

}  // namespace muster::collectives
