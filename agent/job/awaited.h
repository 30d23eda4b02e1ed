// A request of a rank that a server of the agent has not answered yet. A plain value.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace muster::agent::inline job {

struct Awaited {
  std::string what;  // a phrase: "the PMI fence"
  base::MonotonicTime since;
};

// A client of a store that this host serves.
struct StoreClient {
  std::optional<Awaited> wait;  // nullopt if it waits for nothing
};

// Returns the one for which the rank has waited longer.
inline std::optional<Awaited> older(std::optional<Awaited> one, std::optional<Awaited> two) {
  if (!one || (two && two->since < one->since)) return two;
  return one;
}

}  // namespace muster::agent::job
