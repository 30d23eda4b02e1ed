// The scripts that a shell reads for completion. They are the same for all programs: at each TAB they ask the program
// (completion.h).
// Thread: any; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::cli::inline help {

// Returns the script for "bash", "zsh" or "fish". nullopt for an unknown shell.
std::optional<std::string> completion_script(std::string_view shell, std::string_view program);

}  // namespace muster::cli::help
