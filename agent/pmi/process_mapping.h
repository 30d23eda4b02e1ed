// Writes the PMI key PMI_process_mapping, from which MPICH reads which rank is on which host. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::agent::inline pmi {

// `hosts` contains the ranks of each host; together they are 0…size-1, each once.
// "(vector,(0,4,8))" means: from host 0 on, 4 hosts with 8 ranks each, in rank order. Several blocks may follow each
// other.
// Empty if it would exceed `max_bytes`. Without the key, MPICH compares the names of the hosts.
std::string pmi_process_mapping(const std::vector<std::vector<int>>& hosts, std::size_t max_bytes);

}  // namespace muster::agent::pmi
