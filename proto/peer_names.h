// The names by which the two ends of a job's connections identify each other. Pure.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace muster::proto {

// The name in the launcher's certificate on the control connection. Agents accept no other peer. The name has the form
// that CertificateAuthority::issue() takes.
inline constexpr std::string_view kLauncherName = "DNS:launcherd";

// Returns the name in the certificate that all agents of a job share: role and job. The token says which agent it is.
inline std::string agent_uri(std::string_view job) {
  return fmt::format("muster://{}/agent", job);
}

// Returns the name of an agent's key on the output connection.
inline std::string output_identity(std::string_view job, int agent_index) {
  return fmt::format("muster://{}/output/{}", job, agent_index);
}

}  // namespace muster::proto
