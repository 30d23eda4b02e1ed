// HostFindings is what the launcher found out about one host, before the checks judge it. Plain values. Text is
// unchanged, as the host sent it.
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

// The host's clock minus ours, measured in the fastest of several round trips. The error is at most `uncertainty`.
struct ClockSample {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds uncertainty{};
};

// Says whether this host reaches rank 0's address in a job on all of these hosts.
struct PeerFinding {
  std::string host;     // the host of rank 0
  std::string address;  // empty if no address was found; `failure` then says why
  std::string failure;  // empty if the host reached the address
};

struct HostFindings {
  model::HostSpec host;
  bool is_local = false;  // true: started without ssh

  // Not OK if the host was not asked or did not answer; one sentence. Earlier results are then still set.
  base::Status status;
  std::optional<FailureKind> failure;  // the kind of failure, if the agent did not start

  std::string backend;  // "libssh", "ssh", "local"
  bool agent_sent = false;
  std::chrono::milliseconds start_time{};           // from the first packet to the agent's first output
  std::vector<base::IpAddress> launcher_addresses;  // this machine's addresses on the connection to the host
  std::optional<base::IpAddress> host_address;      // the host's address on that connection
  std::optional<ClockSample> clock;
  std::optional<v1::HostFacts> facts;
  std::optional<PeerFinding> peer;  // nullopt for the first host, or if there is only one
};

}  // namespace muster::launcherd::doctor
