// The names by which the two ends of a job's connections know each other.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace muster::proto {

// Of the launcher's certificate on the control connection; agents accept no other peer. As given to
// CertificateAuthority::issue.
inline constexpr std::string_view kLauncherName = "DNS:launcherd";

// Of the certificate that all agents of a job share there: role and job. Which agent it is, its token says.
inline std::string agent_uri(std::string_view job) {
  return fmt::format("muster://{}/agent", job);
}

// Of an agent's key on the output connection.
inline std::string output_identity(std::string_view job, int agent_index) {
  return fmt::format("muster://{}/output/{}", job, agent_index);
}

}  // namespace muster::proto
