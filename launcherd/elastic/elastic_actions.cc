#include "launcherd/elastic/elastic_actions.h"

#include <array>

namespace muster::launcherd::inline elastic {

std::string_view name_of(ElasticCause cause) {
  static constexpr std::array kNames = {"start",         "failure",       "host lost",
                                        "hosts changed", "workers asked", "new process ended"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view name_of(ElasticEnd end) {
  static constexpr std::array kNames = {"succeeded",   "failed",        "all failed", "hosts black-listed",
                                        "reset limit", "too few slots", "no survivor"};
  return kNames[static_cast<std::size_t>(end)];
}

}  // namespace muster::launcherd::elastic
