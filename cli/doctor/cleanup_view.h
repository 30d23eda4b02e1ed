// How `muster cleanup` shows what was found. Pure; what hosts say is made printable.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proto/muster/v1/cleanup.pb.h"

namespace muster::cli::inline doctor {

// A table of what was found, lines for what was not touched or is not known, and a last line that counts. `job`: it was
// asked for this one only; empty: for all.
std::string format_cleanup(const std::vector<v1::CleanupReport>& reports, const std::string& job);

// 0 nothing is left, 1 something is left or not known, 125 no host could be asked.
int cleanup_exit_code(const std::vector<v1::CleanupReport>& reports, const std::string& job);

// All that the reports name, living ones too.
std::set<std::string> jobs_of(const std::vector<v1::CleanupReport>& reports);

}  // namespace muster::cli::doctor
