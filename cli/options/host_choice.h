// Chooses the hosts of a job from all hosts that it could have: --nodes, --spares.
// Thread: any; all functions are pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::cli::inline options {

// Numbers of hosts, counted from 0, as ranges that include both ends. They keep the order in which the user wrote them.
struct HostNumbers {
  std::vector<std::pair<int, int>> ranges;
  std::string label;  // the text with which errors begin
};

// `text` is a list such as "0-3,5".
base::Result<HostNumbers> parse_host_numbers(std::string_view text, std::string_view label);

// Returns the hosts with these numbers, in the order of `hosts`. A host that is listed several times has one number and
// keeps all its entries. INVALID_ARGUMENT if a number is too high; the message says how many hosts there are.
base::Result<std::vector<model::HostSpec>> pick_hosts(const HostNumbers& numbers,
                                                      const std::vector<model::HostSpec>& hosts);

// The result of the health check of one host.
struct HostHealth {
  std::string host;
  std::string problem;  // empty if the host is healthy
};

struct HostChoice {
  std::vector<model::HostSpec> hosts;   // the entries of the chosen hosts
  std::vector<model::HostSpec> spares;  // the entries of healthy hosts that the job does not get
  std::vector<std::string> notes;       // one line for each host that the job does not get
};

// Leaves `spares` hosts out: first those with a problem, then the last ones. A host that `health` does not name counts
// as healthy.
// UNAVAILABLE if fewer hosts are healthy than the job needs; the message names each unhealthy host.
// INVALID_ARGUMENT if no host would be left.
base::Result<HostChoice> leave_spares_out(int spares, const std::vector<HostHealth>& health,
                                          const std::vector<model::HostSpec>& hosts);

}  // namespace muster::cli::options
