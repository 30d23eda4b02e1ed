// The names that certificates of a job carry in their subject alternative name, and that the two ends compare.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace muster::proto {

// Of the launcher's certificate; agents accept no other peer. As given to CertificateAuthority::issue.
inline constexpr std::string_view kLauncherName = "DNS:launcherd";

// Of an agent: its job and its index. Without the "URI:" that the certificate request has before it.
inline std::string agent_uri(std::string_view job, int agent_index) {
  return fmt::format("muster://{}/agent/{}", job, agent_index);
}

}  // namespace muster::proto
