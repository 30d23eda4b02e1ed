// Formats diagnoses of hosts for people.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "model/diagnosis.h"

namespace muster::cli::inline doctor {

// Returns a table for each host, the differences between them, and a last line with counts.
std::string format_diagnoses(const std::vector<model::HostDiagnosis>& diagnoses);

// Returns "2 of 4 hosts have answered; waiting for n3,n4". Empty if no host is waited for.
std::string format_waiting(std::size_t total, const std::vector<std::string>& waiting);

}  // namespace muster::cli::doctor
