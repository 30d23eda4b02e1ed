// Formats the report of a job that seems to hang, for people.
// Thread: any; pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "model/hang_report.h"

namespace muster::cli::inline view {

// A report has at most this many lines, for any number of ranks.
inline constexpr std::size_t kMostHangLines = 25;

struct HangViewOptions {
  std::string job{};          // its id, for commands; empty leaves them out
  std::size_t columns = 100;  // longer lines are cut
  bool is_asked_for = false;  // a user has asked for the report; the job need not hang
};

// The first line says for how long there was no progress, the second one names the cause. Then come the classes of
// ranks, suspects first. Text of hosts and programs is made printable.
std::vector<std::string> format_hang(const model::HangReport& report, const HangViewOptions& options);

// Returns "the job goes on after 3 m 02 s".
std::string format_hang_over(std::chrono::milliseconds silent);

// Returns "12 s", "3 m 02 s" or "2 h 05 m".
std::string format_silence(std::chrono::milliseconds silent);

}  // namespace muster::cli::view
