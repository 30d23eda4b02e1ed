// Names of signals, and signals by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::base {

// "USR1", "SIGUSR1" or "10"; nullopt: no signal of this system.
std::optional<int> signal_named(std::string_view text);

// "SIGUSR1", or "signal 42" where it has no name.
std::string signal_name(int signo);

}  // namespace muster::base
