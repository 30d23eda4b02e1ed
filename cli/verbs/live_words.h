// Adds to a completion what only launchers, files and folders know: jobs, hosts, templates, names of variables.
// Thread: blocks, at most for about the given time, because a user waits for the answer of a TAB.
// Errors: none. What cannot be asked is left out.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "cli/help/completion.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

void add_live_words(Completion& completion, const base::Environment& environment, std::chrono::milliseconds limit);

// These are pure. The first one adds the jobs' ids, then each name that only one of them has.
void add_jobs(Completion& completion, const std::vector<v1::Job>& jobs, base::WallTime now);
// Adds the names in a file such as /etc/hosts, or after Host in ~/.ssh/config. Patterns are left out.
void add_hosts_of_etc(Completion& completion, std::string_view content);
void add_hosts_of_ssh(Completion& completion, std::string_view content);

}  // namespace muster::cli::verbs
