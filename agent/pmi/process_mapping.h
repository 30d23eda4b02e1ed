// Which rank is on which host, as MPICH reads it from the PMI key PMI_process_mapping. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::agent::inline pmi {

// `hosts`: for each the ranks on it, all of 0…size-1 once. "(vector,(0,4,8))": from host 0 on 4 hosts with 8 ranks
// each, in rank order; several blocks follow each other. Empty: longer than `max_bytes`; without the key MPICH compares
// the names of the hosts.
std::string pmi_process_mapping(const std::vector<std::vector<int>>& hosts, std::size_t max_bytes);

}  // namespace muster::agent::pmi
