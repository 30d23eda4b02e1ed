// Diagnoses of hosts as people read them. Pure.
#pragma once

#include <string>
#include <vector>

#include "model/diagnosis.h"

namespace muster::cli::inline doctor {

// A table for each host, what differs between them, and a last line that counts.
std::string format_diagnoses(const std::vector<model::HostDiagnosis>& diagnoses);

// "2 of 4 hosts have answered · waiting: n3, n4".
std::string format_waiting(std::size_t total, const std::vector<std::string>& waiting);

}  // namespace muster::cli::doctor
