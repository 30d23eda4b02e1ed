// HostFindings holds what the launcher found out about one host, before the checks judge it. Plain values. The host's
// text is unchanged.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/status.h"
#include "launcherd/bootstrap/failure.h"
#include "launcherd/plan/launch_plan.h"
#include "model/host_spec.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::launcherd::inline doctor {

// The host's clock minus ours, measured in the fastest of several round trips. Its error is at most `uncertainty`.
struct ClockSample {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds uncertainty{};
};

// The result of a test whether this host reaches the address of rank 0 in a job on all hosts.
struct PeerFinding {
  std::string host;     // the host of rank 0
  std::string address;  // empty if no address was found; `failure` then says why
  std::string failure;  // empty if the host reached the address
};

struct HostFindings {
  model::HostSpec host;
  bool is_local = false;  // true if the agent was started without ssh

  // Not OK if the agent was not asked or did not answer. Its message is one sentence. Fields that were filled before
  // the failure stay set.
  base::Status status;
  std::optional<FailureKind> failure;  // set if the agent did not start

  std::string backend;  // "libssh", "ssh", "local"
  bool agent_sent = false;
  std::chrono::milliseconds start_time{};           // from the first packet to the agent's first output
  std::vector<base::IpAddress> launcher_addresses;  // this machine's addresses on the connection to the host
  std::optional<base::IpAddress> host_address;      // the host's address on that connection
  std::optional<ClockSample> clock;
  std::optional<v1::HostFacts> facts;
  std::optional<PeerFinding> peer;  // nullopt for the first host, and for a single host
};

}  // namespace muster::launcherd::doctor
