// Which of the hosts that a job could have it takes: --nodes, --spare. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::cli::inline options {

// Numbers of hosts from 0, as ranges with both ends; in the order in which they were named.
struct HostNumbers {
  std::vector<std::pair<int, int>> ranges;
  std::string label;  // how errors begin
};

// "0-3,5".
base::Result<HostNumbers> parse_host_numbers(std::string_view text, std::string_view label);

// The hosts with these numbers, in the order of the list. A host that is named several times is one, and keeps all its
// entries. The error says how many there are.
base::Result<std::vector<model::HostSpec>> pick_hosts(const HostNumbers& numbers,
                                                      const std::vector<model::HostSpec>& hosts);

// What a health check says of a host.
struct HostHealth {
  std::string host;
  std::string problem;  // empty: well
};

struct HostChoice {
  std::vector<model::HostSpec> hosts;  // the entries of those that the job gets
  std::vector<std::string> notes;      // a line for each that it does not get
};

// Leaves `spares` hosts out: those with a problem, else the last ones. A host that `health` does not name is taken for
// well. UNAVAILABLE: fewer are well than are needed; names each that is not. INVALID_ARGUMENT: no host would be left.
base::Result<HostChoice> leave_spares_out(int spares, const std::vector<HostHealth>& health,
                                          const std::vector<model::HostSpec>& hosts);

}  // namespace muster::cli::options
