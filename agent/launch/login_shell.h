// The log-in shell of a user, as /etc/passwd names it. The agent is static, so it reads that file itself. Users of a
// directory service are not in it; their SHELL is in the environment of the log-in.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"

namespace muster::agent::inline launch {

// Returns the shell of the user in a file like /etc/passwd. nullopt if the file lacks the user or names no absolute
// path. Pure.
std::optional<std::string> shell_in(std::string_view passwd, uid_t user);

// Returns the shell of this process's user: that of /etc/passwd, else SHELL of `login`, else /bin/sh.
std::string login_shell(const base::Environment& login);

}  // namespace muster::agent::launch
