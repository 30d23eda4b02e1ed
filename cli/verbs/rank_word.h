// Functions that `exec`, `shell` and `cp` share: they read the rank that the user names, and tell whether an error is
// the user's mistake. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "cli/options/settings.h"

namespace muster::cli::inline verbs {

// Reads a rank's number. INVALID_ARGUMENT says what is wrong with `word`.
base::Result<int> parse_rank(std::string_view word);
// Reads --rank. nullopt if it is not given.
base::Result<std::optional<int>> read_rank(const Settings& settings);

// True if the user's words are at fault, and not the launcher or the job.
bool is_users_mistake(const base::Status& status);

}  // namespace muster::cli::verbs
