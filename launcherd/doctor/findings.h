// What was found out about one host, before anybody judges it. Plain values; text is as the host said it.
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

// The host's clock minus ours, from the fastest of some round trips: wrong by at most `uncertainty`.
struct ClockSample {
  std::chrono::nanoseconds offset{};
  std::chrono::nanoseconds uncertainty{};
};

// Whether this host reaches the address that rank 0's host would have in a job on all of these hosts.
struct PeerFinding {
  std::string host;     // which one that is
  std::string address;  // empty: none was to be found, `failure` says why
  std::string failure;  // empty: it was reached
};

struct HostFindings {
  model::HostSpec host;
  bool is_local = false;  // started without ssh

  // Not OK: the host was not asked, or did not answer; one sentence. What came before that is filled.
  base::Status status;
  std::optional<FailureKind> failure;  // its class, where the agent did not start

  std::string backend;  // "libssh", "ssh", "local"
  bool agent_sent = false;
  std::chrono::milliseconds start_time{};           // from the first packet to the agent's first word
  std::vector<base::IpAddress> launcher_addresses;  // of this machine on the way to the host
  std::optional<base::IpAddress> host_address;      // of the host on that way
  std::optional<ClockSample> clock;
  std::optional<v1::HostFacts> facts;
  std::optional<PeerFinding> peer;  // none on the first host, and where there is only one
};

}  // namespace muster::launcherd::doctor
