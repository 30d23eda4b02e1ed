// Names of signals, and signals by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::base {

// Parses "USR1", "SIGUSR1" or "10"; nullopt if this system has no such signal.
std::optional<int> signal_named(std::string_view text);

// Returns text such as "SIGUSR1", or "signal 42" if it has no name.
std::string signal_name(int signo);

}  // namespace muster::base
