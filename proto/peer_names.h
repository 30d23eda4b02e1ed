// The names by which the two ends of a job's connections identify each other. Pure.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace muster::proto {

// Returns the name of an agent's key on the output connection.
inline std::string output_identity(std::string_view job, int agent_index) {
  return fmt::format("muster://{}/output/{}", job, agent_index);
}

}  // namespace muster::proto
